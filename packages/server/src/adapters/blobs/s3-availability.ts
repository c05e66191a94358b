import { StoreAwayError } from '@baobab/core/errors/store-unavailable.ts';
import { isAbsent, toBlobError } from './s3-failures.ts';

const RETRY_MS = 2_000;

export interface AvailabilityOptions {
  /** A small call, to find out whether S3 is back. Its outcome is given to `note`, as that of every other call. */
  ask(): Promise<unknown>;
  /** S3 is away, or back. */
  onChange?: ((change: { isAway: boolean; error?: unknown }) => void) | undefined;
}

/** Whether S3 answers, by the outcome of the last call. */
export class Availability {
  readonly #options: AvailabilityOptions;
  #isAway = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: AvailabilityOptions) {
    this.#options = options;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  note(error?: unknown): void {
    const isAway = error !== undefined && !isAbsent(error) && toBlobError(error) instanceof StoreAwayError;
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    this.#options.onChange?.({ isAway, error });
    clearInterval(this.#retry);
    // Nobody may need a file for a long time.
    if (isAway) this.#retry = setInterval(() => void this.#options.ask().catch(() => {}), RETRY_MS).unref();
  }

  close(): void {
    clearInterval(this.#retry);
  }
}
