import type { ChatMessage } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { PlacedDocument, PlacedImage } from '../../inference/chat-prompt.ts';
import type { DocumentReference } from '../../inference/inputs/documents.ts';
import type { ImageReference } from '../../inference/inputs/images.ts';
import type { FileContent } from './attached-file.ts';

/** A text with images and documents at their places in it. */
export interface DraftContent {
  text: string;
  images: (ImageReference & { at: number })[];
  documents: (DocumentReference & { at: number })[];
}

export const emptyContent = (): DraftContent => ({ text: '', images: [], documents: [] });

export function addFile(content: DraftContent, file: FileContent): void {
  const at = content.text.length;
  if ('text' in file) content.text += file.text;
  else if ('image' in file) content.images.push({ ...file.image, at });
  else content.documents.push({ ...file.document, at });
}

/** Documents can be in what users say and in results of tools. */
export function refuseDocuments({ documents: [document] }: DraftContent, role: string): void {
  if (document === undefined) return;
  const { field } = document;
  throw errors.unsupportedParameter(field, `'${field}' is a file in a message of the role '${role}'.`);
}

/** A message whose images and documents are not checked yet. */
export type DraftMessage = ChatMessage & {
  references?: DraftContent['images'];
  documents?: DraftContent['documents'];
};

/**
 * Agents send several system messages, also in the middle of a conversation. Many chat templates refuse that: they take one, at the
 * beginning. So the leading ones are joined, and later ones become marked user messages.
 */
function orderSystemMessages(messages: readonly DraftMessage[]): DraftMessage[] {
  const firstOther = messages.findIndex(({ role }) => role !== 'system');
  const leading = firstOther === -1 ? messages : messages.slice(0, firstOther);
  const text = leading
    .map(({ content }) => content)
    .filter((content) => content !== '')
    .join('\n\n');
  const rest = messages.slice(leading.length).map((message): DraftMessage => {
    if (message.role !== 'system') return message;
    return { role: 'user', content: `<system-reminder>\n${message.content}\n</system-reminder>` };
  });
  // An empty request is a probe. Templates want at least one message.
  if (rest.length === 0) rest.push({ role: 'user', content: '' });
  return text === '' ? rest : [{ role: 'system', content: text }, ...rest];
}

/** Results of tools are text in most templates, so their images go into a user message after them. */
function moveToolImages(messages: readonly DraftMessage[]): DraftMessage[] {
  const moved: DraftMessage[] = [];
  let waiting: DraftContent['images'] = [];
  const flush = () => {
    if (waiting.length > 0) moved.push({ role: 'user', content: '', references: waiting });
    waiting = [];
  };
  for (const message of messages) {
    if (message.role !== 'tool') flush();
    if (message.role !== 'tool' || message.references === undefined) {
      moved.push(message);
      continue;
    }
    const { references, ...rest } = message;
    moved.push(rest);
    waiting.push(...references.map((image) => ({ ...image, at: 0 })));
  }
  flush();
  return moved;
}

export interface FinishedMessages {
  messages: ChatMessage[];
  images: PlacedImage[];
  documents: PlacedDocument[] | undefined;
}

/** The messages of a chat command as they are, and the images and documents in them. */
export function placeFiles(drafts: readonly DraftMessage[]): FinishedMessages {
  const images: PlacedImage[] = [];
  const documents: PlacedDocument[] = [];
  const messages = drafts.map((draft, index) => {
    const { references = [], documents: files = [], ...message } = draft;
    images.push(...references.map((image) => ({ ...image, message: index })));
    documents.push(...files.map((file) => ({ ...file, message: index })));
    return message;
  });
  return { messages, images, documents: documents.length === 0 ? undefined : documents };
}

/** The same for an API whose conversations are not what chat templates take: they are brought into that order first. */
export const finishMessages = (drafts: readonly DraftMessage[]): FinishedMessages =>
  placeFiles(moveToolImages(orderSystemMessages(drafts)));
