import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import { SandboxedProcess } from '@baobab/core/sandbox/sandboxed-process.ts';
import type { ImageFailure } from './decoder.ts';
import type { ImagePreparation } from './preparation.ts';
import { ANSWER_HEAD_BYTES, type ImageDecoderArguments, LENGTH_BYTES, REFUSED } from './protocol.ts';

/** Decodes the images of an engine process, one at a time, in a process of its own without rights. */
export interface ImageReader extends AsyncDisposable {
  decode(dataUrl: string, field: FieldPath): Promise<Float32Array>;
}

const ENTRY = fileURLToPath(new URL('./decoder-process.ts', import.meta.url));
const HEAP_MEGABYTES = 192;
/**
 * Everything that the process may allocate. The largest images take 320 MB more than a small one; V8 reserves 512 MB for code, which
 * the kernel counts, and the threads of libvips and their stacks take the rest.
 */
const MEMORY_BYTES = 1_280 * 1024 * 1024;
/** Wall time for one image: ten times as long as the decoder itself gives up after. */
const STALL_MS = 300_000;

interface Running {
  process: SandboxedProcess<never, 'stall'>;
  answers: AsyncIterator<{ kind: number; body: Buffer }>;
}

export function createImageReader(
  preparation: ImagePreparation,
  { entry = ENTRY, stallMs = STALL_MS }: { entry?: string; stallMs?: number } = {},
): ImageReader {
  const closed = new AbortController();
  let running: Running | undefined = start();

  function start(): Running {
    const process = new SandboxedProcess<never, 'stall'>(
      {
        name: 'the image decoder',
        entry,
        library: fileURLToPath(import.meta.resolve('sharp')),
        input: 'pipe',
        heapMegabytes: HEAP_MEGABYTES,
        argument: { preparation } satisfies ImageDecoderArguments,
        limits: { memoryBytes: MEMORY_BYTES },
        // The log of the server has what an engine process writes.
        onSeal: (reason) => reason && console.warn(`the image decoder is not sealed: ${reason}`),
        check: () => undefined,
      },
      closed.signal,
    );
    process.child.stdin?.on('error', () => {});
    return { process, answers: answersIn(process.child.stdout as Readable) };
  }

  /** Undefined: the image was too much for the process, which has ended. */
  async function ask(image: Buffer): Promise<{ kind: number; body: Buffer } | undefined> {
    running ??= start();
    const { process, answers } = running;
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(image.length);
    const stdin = process.child.stdin as Writable;
    stdin.write(length);
    stdin.write(image);
    const timer = setTimeout(() => process.kill('stall'), stallMs);
    const { value, done } = await answers.next().finally(() => clearTimeout(timer));
    if (!done) return value;
    running = undefined;
    try {
      await process.end();
    } finally {
      await process[Symbol.asyncDispose]();
    }
    return undefined;
  }

  return {
    async decode(dataUrl, field) {
      const answer = await ask(Buffer.from(dataUrl.slice(dataUrl.indexOf(',') + 1), 'base64'));
      if (answer === undefined) throw refusal({ reason: 'damaged' }, field);
      if (answer.kind === REFUSED) throw refusal(JSON.parse(answer.body.toString()), field);
      const bytes = new Uint8Array(answer.body);
      return new Float32Array(bytes.buffer, 0, bytes.length / Float32Array.BYTES_PER_ELEMENT);
    },
    async [Symbol.asyncDispose]() {
      closed.abort();
      await running?.process[Symbol.asyncDispose]();
    },
  };
}

function refusal(failure: ImageFailure, field: FieldPath): ApiError {
  if (failure.reason === 'damaged') {
    return new ApiError('validation_failed', 'The image cannot be decoded: it is damaged or not complete.', { field });
  }
  const { width, height, maxJpegPixels, maxPixels } = failure;
  return errors.validationFailed(
    field,
    `The image is ${width} × ${height} pixels; this model takes JPEGs of up to ${maxJpegPixels} pixels and other images of up to ${maxPixels}.`,
  );
}

async function* answersIn(stream: Readable): AsyncGenerator<{ kind: number; body: Buffer }> {
  let parts: Buffer[] = [];
  let bytes = 0;
  let needed = ANSWER_HEAD_BYTES;
  for await (const part of stream as AsyncIterable<Buffer>) {
    parts.push(part);
    bytes += part.length;
    while (bytes >= needed) {
      const all = Buffer.concat(parts);
      const end = ANSWER_HEAD_BYTES + all.readUInt32LE();
      needed = end;
      parts = [all];
      if (bytes < end) break;
      yield { kind: all.readUInt8(LENGTH_BYTES), body: all.subarray(ANSWER_HEAD_BYTES, end) };
      parts = [all.subarray(end)];
      bytes -= end;
      needed = ANSWER_HEAD_BYTES;
    }
  }
}
