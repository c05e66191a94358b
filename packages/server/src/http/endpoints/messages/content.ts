import { framedText } from '@baobab/core/domain/document.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Static } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ImageReference } from '../../../inference/inputs/images.ts';
import { MAX_LIST } from '../../body/bounded.ts';
import type { FileContent } from '../../generation/attached-file.ts';
import { addFile, type DraftContent, emptyContent } from '../../generation/draft-messages.ts';
import { InnerBlock } from './schema.ts';

const blocks = Compile(InnerBlock);
type Block = Static<typeof InnerBlock>;

/**
 * Claude Code begins its system prompt with a line that changes with every request. It would make every cached prefix
 * useless.
 */
export const withoutBillingLine = (text: string): string => text.replace(/^x-anthropic-billing-header:[^\n]*\n*/i, '');

function imageOf({ source }: Block, field: string): ImageReference {
  if (source?.type === 'base64' && source.data) {
    return { source: { url: `data:${source.media_type ?? 'image/png'};base64,${source.data}` }, field };
  }
  if (source?.type === 'url' && source.url) return { source: { url: source.url }, field };
  if (source?.type === 'file' && source.file_id) return { source: { fileId: source.file_id }, field };
  throw errors.missingParameter(`${field}.source`);
}

/** The text of a document in blocks. */
function blocksText(content: unknown, path: string): string {
  if (typeof content === 'string') return content;
  const { text, images } = contentOf(content, path);
  if (images.length > 0 || !Array.isArray(content)) {
    throw errors.unsupportedParameter(path, `'${path}' must be text or blocks of text.`);
  }
  return text;
}

function documentOf({ source, title }: Block, path: string): FileContent {
  const given = { tag: 'document' as const, name: title ?? undefined, field: path };
  const framed = (text: string) => ({ text: framedText({ tag: 'document', name: title ?? 'document' }, text) });
  const { type, data, media_type: mediaType } = source ?? {};
  if (type === 'file' && source?.file_id) return { document: { source: { fileId: source.file_id }, ...given } };
  if (type === 'content') return framed(blocksText(source?.content, `${path}.source.content`));
  if (type === 'url') {
    throw errors.unsupportedParameter(
      path,
      `'${path}' is a document at an address: documents are not fetched from the network. Send its content.`,
    );
  }
  if (typeof data !== 'string') throw errors.missingParameter(`${path}.source.data`);
  if (type === 'text') return framed(data);
  if (mediaType?.startsWith('text/')) return framed(Buffer.from(data, 'base64').toString());
  if (mediaType === 'application/pdf') return { document: { source: { pdfBase64: data }, ...given } };
  throw errors.unsupportedParameter(path, `'${path}' is a document that no model here reads. Send a PDF or its text.`);
}

const READ_TYPES = new Set(['text', 'image', 'document']);

/** Blocks of tools that a server runs are skipped. Their fields can have any type. */
function isSkipped(block: unknown): boolean {
  const { type } = (block ?? {}) as { type?: unknown };
  return typeof type === 'string' && !READ_TYPES.has(type);
}

/** Adds a block that has text or an image. */
function addBlock(content: DraftContent, block: unknown, path: string): void {
  if (isSkipped(block)) return;
  // The schema of the body allows any content of a tool result.
  if (!blocks.Check(block)) {
    throw errors.invalidParameter(path, `'${path}' must be a block such as {"type": "text", "text": "Hello"}.`);
  }
  switch (block.type) {
    case 'text':
      if (typeof block.text !== 'string') throw errors.missingParameter(`${path}.text`);
      content.text += content.text === '' ? block.text : `\n\n${block.text}`;
      break;
    case 'image':
      content.images.push({ ...imageOf(block, path), at: content.text.length });
      break;
    case 'document':
      addFile(content, documentOf(block, path));
      break;
    default:
      break;
  }
}

export function contentOf(given: unknown, path: string): DraftContent {
  const content = emptyContent();
  if (typeof given === 'string') content.text = given;
  else if (Array.isArray(given)) {
    // The schema of the body does not reach into the content of every block.
    if (given.length > MAX_LIST) throw errors.tooManyItems(path, given.length, MAX_LIST);
    for (const [index, block] of given.entries()) addBlock(content, block, `${path}[${index}]`);
  }
  return content;
}
