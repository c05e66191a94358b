import { framedText } from '@baobab/core/domain/document.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { DocumentReference } from '../../inference/inputs/documents.ts';
import type { ImageReference } from '../../inference/inputs/images.ts';

/** A file in a prompt as the APIs of OpenAI describe it. */
export interface AttachedFile {
  fileId?: string | null | undefined;
  /** A data URL, or the bare base64 of a PDF. */
  data?: string | null | undefined;
  name?: string | null | undefined;
}

/** What a file is in a prompt: text already, an image, or a document whose text must be read first. */
export type FileContent = { text: string } | { image: ImageReference } | { document: DocumentReference };

const HEAD = /^data:([^,;]{0,100})((?:;[^,;]{0,100}){0,4}),/i;
const TEXT_TYPE = /^(?:text\/[\w.+-]+|application\/(?:json|xml|yaml|x-yaml|javascript))$/i;
/** `%PDF-` in base64. */
const PDF_BASE64 = 'JVBERi0';

function percentDecoded(content: string, field: string): string {
  try {
    return decodeURIComponent(content);
  } catch {
    throw errors.invalidParameter(field, `'${field}' is not properly percent-encoded.`);
  }
}

/** `path`: the place of the file in the body. `dataField`: the name of its data there. */
export function fileContent({ fileId, data, name }: AttachedFile, path: string, dataField: string): FileContent {
  const given = { tag: 'file' as const, name: name ?? undefined, field: path };
  if (fileId) return { document: { source: { fileId }, ...given } };
  if (!data) throw errors.missingParameter(dataField);
  if (data.startsWith(PDF_BASE64)) return { document: { source: { pdfBase64: data }, ...given } };
  const [head = '', type = '', options = ''] = HEAD.exec(data.slice(0, 1_000)) ?? [];
  const isBase64 = /;base64$/i.test(options);
  const content = data.slice(head.length);
  if (head !== '' && TEXT_TYPE.test(type)) {
    const text = isBase64 ? Buffer.from(content, 'base64').toString() : percentDecoded(content, dataField);
    return { text: framedText({ tag: 'file', name: name ?? 'file' }, text) };
  }
  if (isBase64 && /^image\//i.test(type)) return { image: { source: { url: data }, field: path } };
  if (isBase64 && (/^application\/pdf$/i.test(type) || content.startsWith(PDF_BASE64))) {
    return { document: { source: { pdfBase64: content }, ...given } };
  }
  throw errors.unsupportedParameter(
    path,
    `'${path}' is a file that no model here reads. Send a PDF, a text or an image as a data URL with base64, or upload it.`,
  );
}
