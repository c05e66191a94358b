import type { ChatCommand } from '../chat.ts';
import type { DocumentReference } from './documents.ts';
import type { ImageReference } from './images.ts';

export interface PlacedDocument extends DocumentReference {
  /** Index of the message. */
  message: number;
  /** How many characters of the message's text come before it. */
  at: number;
}

interface Insertion {
  message: number;
  at: number;
  found: string | ImageReference;
}

/** The command with the text of its documents in the messages. Documents that are images join the other images. */
export function withDocuments(command: ChatCommand, found: readonly (string | ImageReference)[]): ChatCommand {
  const { documents = [], request, images = [] } = command;
  if (documents.length === 0 || !('messages' in request.prompt)) return command;
  const insertions = documents.flatMap(({ message, at }, index): Insertion[] => {
    const content = found[index];
    return content === undefined ? [] : [{ message, at, found: content }];
  });
  /** Characters that are inserted before a place of a message. */
  const addedBefore = (message: number, at: number): number =>
    insertions.reduce(
      (sum, each) =>
        each.message === message && each.at <= at && typeof each.found === 'string' ? sum + each.found.length : sum,
      0,
    );
  const messages = request.prompt.messages.map((message, index) => {
    const own = insertions.filter((each) => each.message === index);
    if (own.length === 0) return message;
    let content = '';
    let taken = 0;
    for (const { at, found: inserted } of own) {
      if (typeof inserted !== 'string') continue;
      content += message.content.slice(taken, at) + inserted;
      taken = at;
    }
    return { ...message, content: content + message.content.slice(taken) };
  });
  const added = insertions.flatMap(({ found: image, ...place }) =>
    typeof image === 'string' ? [] : [{ ...image, ...place }],
  );
  const placed = [...images, ...added]
    .toSorted((a, b) => a.message - b.message || a.at - b.at)
    .map((image) => ({ ...image, at: image.at + addedBefore(image.message, image.at) }));
  return { ...command, documents: undefined, request: { ...request, prompt: { messages } }, images: placed };
}
