import { errors } from '../../../errors/errors.ts';
import type { ImageReference } from '../../../services/images.ts';
import type { DraftContent } from '../../generation/draft-messages.ts';
import type { ContentBody, InputItemBody } from './schema.ts';

type Part = Exclude<ContentBody, string>[number];

const TEXT_FILE = /^data:(?:text\/[\w.+-]+|application\/(?:json|xml|yaml|x-yaml|javascript))(;[^,]*)?,/i;
const IMAGE_FILE = /^data:image\//i;

function percentDecoded(content: string, path: string): string {
  try {
    return decodeURIComponent(content);
  } catch {
    const field = `${path}.file_data`;
    throw errors.invalidParameter(field, `'${field}' is not properly percent-encoded.`);
  }
}

/** The text of a file that was sent as a data URL. */
function fileText({ file_data: data, filename }: Part, path: string): string | undefined {
  const head = data && TEXT_FILE.exec(data.slice(0, 200));
  if (!data || !head) return undefined;
  const content = data.slice(head[0].length);
  const text = head[1]?.includes('base64') ? Buffer.from(content, 'base64').toString() : percentDecoded(content, path);
  return `<file name=${JSON.stringify(filename ?? 'file')}>\n${text}\n</file>`;
}

function imageOf(part: Part, path: string): ImageReference {
  if (part.file_id) return { source: { fileId: part.file_id }, field: path };
  if (part.type === 'input_file') {
    if (part.file_data && IMAGE_FILE.test(part.file_data)) return { source: { url: part.file_data }, field: path };
    throw errors.unsupportedParameter(
      path,
      `'${path}' is a file that no model here reads. Send its text, or an image.`,
    );
  }
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
    case 'input_file': {
      const text = fileText(part, path);
      if (text !== undefined) content.text += text;
      else content.images.push({ ...imageOf(part, path), at: content.text.length });
      break;
    }
    default:
      throw errors.unsupportedParameter(path, `'${path}' is of type '${part.type}', which no model here takes.`);
  }
}

export function contentOf(given: InputItemBody['content'] | object, path: string): DraftContent {
  const content: DraftContent = { text: '', images: [] };
  if (typeof given === 'string') content.text = given;
  else if (Array.isArray(given)) for (const [i, part] of given.entries()) addPart(content, part, `${path}[${i}]`);
  else if (given) content.text = JSON.stringify(given);
  return content;
}
