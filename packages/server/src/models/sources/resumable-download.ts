import { setTimeout as delay } from 'node:timers/promises';
import { WeightsError } from '../weights-error.ts';

export interface ResumableOptions {
  /** Opens the body from this byte on. */
  open(offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  startOffset?: number;
  signal: AbortSignal;
  /** A body that is silent for so long is given up and asked for again. */
  stallTimeoutMs?: number;
  /** Failures in a row, without a byte between them, before it counts as failed. */
  attempts?: number;
  retryDelayMs?: number;
}

/** The bytes of a body, in order; connections that break or stall in the middle are resumed where they stopped. */
export async function* resumableDownload(options: ResumableOptions): AsyncGenerator<Uint8Array> {
  const { open, signal, stallTimeoutMs = 30_000, attempts = 3, retryDelayMs = 500 } = options;
  let offset = options.startOffset ?? 0;
  for (let failures = 0; ; ) {
    const attempt = new AbortController();
    const stalled = setTimeout(() => attempt.abort(new Error('The download stalled')), stallTimeoutMs);
    try {
      for await (const chunk of await open(offset, AbortSignal.any([signal, attempt.signal]))) {
        stalled.refresh();
        failures = 0;
        offset += chunk.byteLength;
        yield chunk;
      }
      return;
    } catch (error) {
      signal.throwIfAborted();
      failures += 1;
      // What the source says on purpose does not change by asking again.
      if (failures >= attempts || (error instanceof WeightsError && error.failure === 'refused')) throw error;
    } finally {
      clearTimeout(stalled);
      attempt.abort();
    }
    await delay(retryDelayMs * failures, undefined, { signal });
  }
}
