import type { ChatRequest, ImageInput } from '@baobab/core/engine/engine.ts';
import type { ChatCommand, Position } from '../chat-command.ts';
import type { ImageReference } from './images.ts';

interface Insertion extends Position {
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
  /** Characters that are inserted before a position. */
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
  const added = insertions.flatMap(({ found: image, ...position }) =>
    typeof image === 'string' ? [] : [{ ...image, ...position }],
  );
  const placed = [...images, ...added]
    .toSorted((a, b) => a.message - b.message || a.at - b.at)
    .map((image) => ({ ...image, at: image.at + addedBefore(image.message, image.at) }));
  return { ...command, documents: undefined, request: { ...request, prompt: { messages } }, images: placed };
}

/** The request with the content of its images, which come in the same order. */
export function withImages({ request, images = [] }: ChatCommand, loaded: readonly ImageInput[]): ChatRequest {
  if (loaded.length === 0 || !('messages' in request.prompt)) return request;
  const messages = request.prompt.messages.map((message, index) => {
    const own = images.flatMap(({ message: owner, at }, i) => {
      const image = loaded[i];
      return owner === index && image !== undefined ? [{ ...image, at }] : [];
    });
    return own.length === 0 ? message : { ...message, images: own };
  });
  return { ...request, prompt: { messages } };
}
