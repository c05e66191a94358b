import { cancellation } from '@baobab/core/errors/cancellation.ts';
import type { Tensor } from 'onnxruntime-node';
import { batchKey, type createDecoder, type Decoded, type DecodeJob } from './decoding.ts';
import type { Network } from './network.ts';

interface Waiting<Input, Output> {
  input: Input;
  signal: AbortSignal;
  resolve(output: Output): void;
  reject(reason: unknown): void;
}

export interface WindowBatches {
  encode(features: () => Float32Array, signal: AbortSignal): Promise<Tensor>;
  decode(job: DecodeJob): Promise<Decoded>;
}

/**
 * Puts windows of all running requests together. The encoder gains nothing from a batch, so windows are encoded one after
 * the other; the decoder reads all its weights for each token, so it waits for the encoded windows and takes them at once.
 */
export function createWindowBatches(
  network: Network,
  decodeTogether: ReturnType<typeof createDecoder>,
  maxRows: number,
): WindowBatches {
  const toEncode: Waiting<() => Float32Array, Tensor>[] = [];
  const toDecode: Waiting<DecodeJob, Decoded>[] = [];
  let running = false;

  async function encodeNext(next: Waiting<() => Float32Array, Tensor>): Promise<void> {
    try {
      next.resolve(await network.encode(next.input()));
    } catch (error) {
      next.reject(error);
    }
    // The request that was just answered queues its decoding in a microtask: wait for it before choosing.
    await new Promise(setImmediate);
  }

  async function decodeNext(): Promise<void> {
    const key = toDecode[0] && batchKey(toDecode[0].input);
    const batch: Waiting<DecodeJob, Decoded>[] = [];
    for (let i = 0; i < toDecode.length && batch.length < maxRows; ) {
      const candidate = toDecode[i] as Waiting<DecodeJob, Decoded>;
      if (batchKey(candidate.input) === key) batch.push(...toDecode.splice(i, 1));
      else i++;
    }
    try {
      const jobs = batch.map((waiting) => waiting.input);
      await decodeTogether(jobs, (index, decoded) => batch[index]?.resolve(decoded));
      for (const { signal, reject } of batch) if (signal.aborted) reject(cancellation(signal));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    await new Promise(setImmediate);
  }

  async function drain(): Promise<void> {
    if (running) return;
    running = true;
    while (toEncode.length + toDecode.length > 0) {
      dropAborted(toEncode);
      dropAborted(toDecode);
      const next = toDecode.length < maxRows ? toEncode.shift() : undefined;
      if (next !== undefined) await encodeNext(next);
      else if (toDecode.length > 0) await decodeNext();
    }
    running = false;
  }

  const enqueue = <Input, Output>(queue: Waiting<Input, Output>[], input: Input, signal: AbortSignal) =>
    new Promise<Output>((resolve, reject) => {
      queue.push({ input, signal, resolve, reject });
      // A run of the network cannot be interrupted, but the request need not wait for its end.
      signal.addEventListener('abort', () => reject(cancellation(signal)), { once: true });
      void drain();
    });

  return {
    encode: (features, signal) => enqueue(toEncode, features, signal),
    decode: (job) => enqueue(toDecode, job, job.signal),
  };
}

function dropAborted<Input, Output>(queue: Waiting<Input, Output>[]): void {
  for (let i = queue.length - 1; i >= 0; i--) {
    const waiting = queue[i] as Waiting<Input, Output>;
    if (!waiting.signal.aborted) continue;
    queue.splice(i, 1);
    waiting.reject(cancellation(waiting.signal));
  }
}
