import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import type { InferenceCall } from './call.ts';
import type { ChatCommand } from './chat-command.ts';
import type { DocumentsService } from './inputs/documents.ts';
import type { CheckedImage, ImagesService, LoadedImages } from './inputs/images.ts';
import { withDocuments, withImages } from './inputs/placement.ts';
import { reservedPromptTokens } from './prompt-size.ts';

export interface PromptReaders {
  images: ImagesService;
  documents: DocumentsService;
}

const NO_IMAGES: readonly CheckedImage[] = [];
const NOT_LOADED: LoadedImages['inputs'] = [];

/** The prompt of a chat and the files that its messages name. A class: thousands of streams may be open. */
export class ChatPrompt {
  command: ChatCommand;
  readonly #readers: PromptReaders;
  readonly #call: InferenceCall;
  #images = NO_IMAGES;
  #loaded = NOT_LOADED;

  constructor(readers: PromptReaders, call: InferenceCall, command: ChatCommand) {
    this.#readers = readers;
    this.#call = call;
    this.command = command;
  }

  /**
   * Reads documents and the heads of images: the limits count their tokens. `check` gets the complete text. Returns no promise when there
   * is nothing to read.
   */
  complete(check: (command: ChatCommand) => ChatCommand): Promise<void> | undefined {
    const { documents, images } = this.command;
    if (documents !== undefined || images !== undefined) return this.#readFiles(check);
    this.command = check(this.command);
    return undefined;
  }

  /** When the request is admitted. */
  loadImages(): Promise<Disposable> | undefined {
    if (this.#images.length === 0) return undefined;
    return this.#readers.images.load(this.#call.principal.account.id, this.#images).then((loaded) => {
      this.#loaded = loaded.inputs;
      return loaded;
    });
  }

  /** What the engine gets. */
  request(): ChatRequest {
    return withImages(this.command, this.#loaded);
  }

  /** For limits and budgets. */
  reservedTokens(): number {
    return this.#images.reduce((sum, { tokens }) => sum + tokens, reservedPromptTokens(this.command.request));
  }

  async #readFiles(check: (command: ChatCommand) => ChatCommand): Promise<void> {
    const { documents = [] } = this.command;
    if (documents.length > 0) {
      this.command = withDocuments(this.command, await this.#readers.documents.read(this.#call, documents));
    }
    this.command = check(this.command);
    const { images = [] } = this.command;
    if (images.length > 0) this.#images = await this.#readers.images.check(this.#call.principal.account.id, images);
  }
}
