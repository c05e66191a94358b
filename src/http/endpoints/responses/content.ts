import { errors } from '../../../errors/errors.ts';
import type { ContentBody, InputItemBody } from './schema.ts';

function partText(part: Exclude<ContentBody, string>[number], path: string): string {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
    case 'summary_text':
    case 'reasoning_text':
      if (typeof part.text !== 'string') throw errors.missingParameter(`${path}.text`);
      return part.text;
    case 'refusal':
      return part.refusal ?? '';
    default:
      throw errors.unsupportedParameter(path, `'${path}' is of type '${part.type}', but this model takes text only.`);
  }
}

export function contentText(content: InputItemBody['content'] | object, path: string): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content.map((part, index) => partText(part, `${path}[${index}]`)).join('');
}
