import { errors } from '@baobab/core/errors/errors.ts';
import type { ImageReference } from '../../../inference/inputs/images.ts';
import { fileContent } from '../../generation/attached-file.ts';
import { addFile, type DraftContent, emptyContent } from '../../generation/draft-messages.ts';
import type { ContentBody, InputItemBody } from './schema.ts';

type Part = Exclude<ContentBody, string>[number];

function imageOf(part: Part, path: string): ImageReference {
  if (part.file_id) return { source: { fileId: part.file_id }, field: path };
  if (!part.image_url) throw errors.missingParameter(`${path}.image_url`);
  const detail = part.detail === 'low' || part.detail === 'high' ? part.detail : undefined;
  return { source: { url: part.image_url }, field: path, detail };
}

function addPart(content: DraftContent, part: Part, path: string): void {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
    case 'summary_text':
    case 'reasoning_text':
      if (typeof part.text !== 'string') throw errors.missingParameter(`${path}.text`);
      content.text += part.text;
      break;
    case 'refusal':
      content.text += part.refusal ?? '';
      break;
    case 'input_image':
      content.images.push({ ...imageOf(part, path), at: content.text.length });
      break;
    case 'input_file':
      if (part.file_url && !part.file_id && !part.file_data) {
        throw errors.unsupportedParameter(
          `${path}.file_url`,
          `'${path}.file_url' is not supported: files are not fetched from the network. Send 'file_data' or 'file_id'.`,
        );
      }
      addFile(
        content,
        fileContent({ fileId: part.file_id, data: part.file_data, name: part.filename }, path, `${path}.file_data`),
      );
      break;
    default:
      throw errors.unsupportedParameter(path, `'${path}' is of type '${part.type}', which no model here takes.`);
  }
}

export function contentOf(given: InputItemBody['content'] | object, path: string): DraftContent {
  const content = emptyContent();
  if (typeof given === 'string') content.text = given;
  else if (Array.isArray(given)) for (const [i, part] of given.entries()) addPart(content, part, `${path}[${i}]`);
  else if (given) content.text = JSON.stringify(given);
  return content;
}
