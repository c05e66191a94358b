export interface LineWindowOptions {
  /** Lines of one model that run at a time. */
  perModel: number;
  maxLines: number;
  maxBytes: number;
}

interface ModelLines {
  running: number;
  waiting: (() => void)[];
}

/**
 * The lines of a batch that have been read and have not ended. Each model has a share of its own, so that the lines of a fast one are not
 * behind those of a slow one. A batch with one model is not read beyond that share: other processes can have its next slices.
 */
export class LineWindow {
  readonly #options: LineWindowOptions;
  readonly #models = new Map<string, ModelLines>();
  #hasSeveralModels = false;
  #lines = 0;
  #bytes = 0;
  #lineEnded = Promise.withResolvers<void>();

  constructor(options: LineWindowOptions) {
    this.#options = options;
  }

  /** Runs the line as soon as its model's share allows it. `run` must not reject. */
  add({ model, bytes }: { model: string; bytes: number }, run: () => Promise<void>): void {
    const lines = this.#models.get(model) ?? { running: 0, waiting: [] };
    this.#models.set(model, lines);
    this.#hasSeveralModels ||= this.#models.size > 1;
    this.#lines += 1;
    this.#bytes += bytes;
    const begin = async () => {
      lines.running += 1;
      await run();
      lines.running -= 1;
      this.#lines -= 1;
      this.#bytes -= bytes;
      lines.waiting.shift()?.();
      if (lines.running === 0) this.#models.delete(model);
      this.#lineEnded.resolve();
    };
    if (lines.running < this.#options.perModel) void begin();
    else lines.waiting.push(begin);
  }

  /** Resolves when another line may be added. */
  async room(): Promise<void> {
    const isFull = () => {
      const { perModel, maxLines, maxBytes } = this.#options;
      const most = this.#hasSeveralModels ? maxLines : perModel;
      return this.#lines >= most || (this.#bytes > maxBytes && this.#lines > 1);
    };
    while (isFull()) await this.#nextEnd();
  }

  /** Resolves when all lines have ended. */
  async ended(): Promise<void> {
    while (this.#lines > 0) await this.#nextEnd();
  }

  #nextEnd(): Promise<void> {
    this.#lineEnded = Promise.withResolvers();
    return this.#lineEnded.promise;
  }
}
