import { MAX_IMAGE_TOKENS, UNKNOWN_IMAGE_TOKENS } from '@baobab/core/domain/image.ts';
import type { ChatRequest, ImageInput } from '@baobab/core/engine/engine.ts';
import type { InferenceCall } from './call.ts';
import type { ChatCommand, Position } from './chat-command.ts';
import type { DocumentsService } from './inputs/documents.ts';
import type { CheckedImage, ImageReference, ImagesService, LoadedImages } from './inputs/images.ts';
import { mostPromptTokens, reservedPromptTokens } from './prompt-size.ts';

export interface PromptReaders {
  images: ImagesService;
  documents: DocumentsService;
}

const NO_IMAGES: readonly CheckedImage[] = [];
const NOT_LOADED: LoadedImages['inputs'] = [];

/** The prompt of a chat and the files that its messages name. A class: thousands of streams may be open. */
export class ChatPrompt {
  /** As far as it is known: the documents are missing until they are read. */
  command: ChatCommand;
  readonly #readers: PromptReaders;
  readonly #call: InferenceCall;
  /** As the client sent it. */
  #sent: ChatCommand;
  #images = NO_IMAGES;
  #loaded = NOT_LOADED;

  constructor(readers: PromptReaders, call: InferenceCall, command: ChatCommand) {
    this.#readers = readers;
    this.#call = call;
    this.#sent = command;
    this.command = command;
  }

  /** `fit` throws if the model cannot take the prompt, and may change it. */
  fit(fit: (command: ChatCommand) => ChatCommand): void {
    this.command = fit(this.#sent);
  }

  /** Reads the files. `check` gets the complete text before images are read. Returns no promise when there is nothing to read. */
  read(check: (command: ChatCommand) => unknown): Promise<Disposable> | undefined {
    const { documents = [], images = [] } = this.#sent;
    return documents.length > 0 || images.length > 0 ? this.#readFiles(check) : undefined;
  }

  /** What the engine gets. */
  request(): ChatRequest {
    return withImages(this.command, this.#loaded);
  }

  /** For the token limit. Images that are not read yet count as those of unknown size, documents as nothing. */
  estimatedTokens(): number {
    const { request, images = [] } = this.command;
    let sum = reservedPromptTokens(request);
    if (this.#images.length === 0) sum += images.length * UNKNOWN_IMAGE_TOKENS;
    for (const { tokens } of this.#images) sum += tokens;
    return sum;
  }

  /** For budgets: no prompt of this text and so many images has more. */
  mostTokens(): number {
    const { request, images = [] } = this.command;
    return mostPromptTokens(request) + images.length * MAX_IMAGE_TOKENS;
  }

  async #readFiles(check: (command: ChatCommand) => unknown): Promise<Disposable> {
    const { documents = [] } = this.#sent;
    if (documents.length > 0) {
      this.#sent = withDocuments(this.#sent, await this.#readers.documents.read(this.#call, documents));
      check(this.#sent);
    }
    const { images = [] } = this.#sent;
    const accountId = this.#call.principal.account.id;
    this.#images = await this.#readers.images.check(accountId, images);
    const loaded = await this.#readers.images.load(accountId, this.#images);
    this.#loaded = loaded.inputs;
    return loaded;
  }
}

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
