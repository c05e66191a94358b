import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { AudioReader, MayDecode, ReaderSlots } from '@baobab/core/ports/file-readers.ts';
import { type OnSeal, SandboxedProcess } from '@baobab/core/sandbox/sandboxed-process.ts';
import { type DecodeFailure, type DecoderArguments, SAMPLE_RATE } from './protocol.ts';
import { cutWindows } from './windows.ts';

interface AudioReaderDependencies {
  /** Streams are stored here while they are decoded, because an m4a may have its table of contents at the end. */
  temporaryDirectory: string;
  limits?: Partial<DecodeLimits> | undefined;
  /** Bounds the decoder processes of all requests; each takes about 100 MB. */
  decoders: ReaderSlots;
  onSeal?: OnSeal | undefined;
  decode?: typeof decodeAudio;
}

export function createAudioReader(dependencies: AudioReaderDependencies): AudioReader {
  const { temporaryDirectory, limits, decoders, onSeal, decode = decodeAudio } = dependencies;

  async function* readFile(path: string, context: CallContext, mayDecode: MayDecode | undefined) {
    const permit = await decoders.enter(context);
    try {
      const decoded = decode(path, { signal: context.signal, limits, onSeal });
      return yield* cutWindows(mayDecode === undefined ? decoded : allowedPart(decoded, mayDecode));
    } finally {
      permit.release();
    }
  }

  return {
    async *read(source, context, mayDecode) {
      if ('path' in source) return yield* readFile(source.path, context, mayDecode);
      await mkdir(temporaryDirectory, { recursive: true });
      const path = join(temporaryDirectory, `audio-${randomUUID()}`);
      try {
        await pipeline(source.stream, createWriteStream(path, { mode: 0o600 }), { signal: context.signal });
        return yield* readFile(path, context, mayDecode);
      } finally {
        await rm(path, { force: true });
      }
    },
  };
}

/** Asks before each second of audio, and ends where no more may be decoded. Chunks may be of any length. */
async function* allowedPart(chunks: AsyncIterable<Float32Array>, mayDecode: MayDecode): AsyncGenerator<Float32Array> {
  let samples = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const done = samples % SAMPLE_RATE;
      if (done === 0) {
        const may = mayDecode(samples / SAMPLE_RATE + 1);
        if (!(may instanceof Promise ? await may : may)) return;
      }
      const piece = chunk.subarray(at, at + SAMPLE_RATE - done);
      samples += piece.length;
      at += piece.length;
      yield piece;
    }
  }
}

export interface DecodeLimits {
  /** Longest accepted audio. */
  maxSeconds: number;
  /** Resident memory of the decoder process. */
  maxMemoryBytes: number;
  /** CPU time for the next second of audio, or to start. Not wall time, which also passes on a busy machine. */
  stallCpuSeconds: number;
  /** Wall time, for when CPU time cannot be read or the decoder is idle. */
  stallTimeoutMs: number;
}

const DEFAULT_LIMITS: DecodeLimits = {
  maxSeconds: 24 * 60 * 60,
  maxMemoryBytes: 512 * 1024 * 1024,
  stallCpuSeconds: 10,
  stallTimeoutMs: 180_000,
};

const ENTRY = fileURLToPath(new URL('./decoder-process.ts', import.meta.url));
const HEAP_MEGABYTES = 192;
const ACCEPTED = 'wav, mp3, flac, ogg (Vorbis or Opus), m4a (AAC, mono or stereo) and webm (Vorbis or Opus)';

/** Why a decoder was killed. */
type EndReason = 'memory' | 'stall';

/**
 * Decodes an audio file to mono 16 kHz samples, about a second at a time and only as fast as they are read. It runs
 * in a process without rights, which is killed when the consumer stops or the signal fires.
 * A file that is not audio is an `invalid_parameter`. A decoder that cannot start is an internal error.
 */
export async function* decodeAudio(
  path: string,
  options: { signal: AbortSignal; limits?: Partial<DecodeLimits> | undefined; onSeal?: OnSeal | undefined },
): AsyncGenerator<Float32Array<ArrayBuffer>> {
  const { signal, onSeal } = options;
  signal.throwIfAborted();
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  let cpuSecondsAtChunk = 0;
  let cpuSeconds = 0;
  await using file = await open(path);
  const { size } = await file.stat();
  await using decoder = new SandboxedProcess<DecodeFailure, EndReason>(
    {
      name: 'the audio decoder',
      entry: ENTRY,
      library: fileURLToPath(import.meta.resolve('mediabunny')),
      input: file.fd,
      onSeal,
      heapMegabytes: HEAP_MEGABYTES,
      argument: { bytes: size, maxSeconds: limits.maxSeconds } satisfies DecoderArguments,
      check(used) {
        if (used.memoryBytes > limits.maxMemoryBytes) return 'memory';
        cpuSeconds = Math.max(cpuSeconds, used.cpuSeconds);
        return cpuSeconds - cpuSecondsAtChunk > limits.stallCpuSeconds ? 'stall' : undefined;
      },
    },
    signal,
  );
  const stalled = () => decoder.kill('stall');
  for await (const chunk of alignedSamples(decoder.child.stdout as Readable, limits.stallTimeoutMs, stalled)) {
    // Checks here too: a fast machine decodes a short file between two ticks of the timer.
    await decoder.check();
    yield chunk;
    cpuSecondsAtChunk = cpuSeconds;
  }
  const end = await decoder.end();
  if (end !== undefined) throw errors.invalidParameter(['file'], message(end.failure, end.killedFor));
}

/** Whole samples of a byte stream. The timeout runs only while the consumer waits, so a slow consumer causes none. */
async function* alignedSamples(
  stream: Readable,
  stallTimeoutMs: number,
  onStall: () => void,
): AsyncGenerator<Float32Array<ArrayBuffer>> {
  const iterator = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let rest: Buffer = Buffer.alloc(0);
  try {
    for (;;) {
      const timer = setTimeout(onStall, stallTimeoutMs);
      const next = await iterator.next().finally(() => clearTimeout(timer));
      if (next.done) return;
      const bytes = rest.length > 0 ? Buffer.concat([rest, next.value]) : next.value;
      const whole = bytes.length - (bytes.length % Float32Array.BYTES_PER_ELEMENT);
      rest = bytes.subarray(whole);
      const copy = new Uint8Array(whole);
      copy.set(bytes.subarray(0, whole));
      if (whole > 0) yield new Float32Array(copy.buffer);
    }
  } finally {
    // What a consumer that stops early has left unread would keep the process from closing.
    stream.destroy();
  }
}

function message(failure: DecodeFailure | undefined, ended: EndReason | undefined): string {
  if (ended !== undefined) {
    return `The file could not be decoded: it needs more ${ended === 'memory' ? 'memory' : 'time'} than an audio file should. Accepted are ${ACCEPTED}.`;
  }
  switch (failure?.reason) {
    case 'unknown-format':
      return `The file is not audio in a format that is known here. Accepted are ${ACCEPTED}.`;
    case 'no-audio':
      return `The file contains no audio. Accepted are ${ACCEPTED}.`;
    case 'unsupported-codec':
      return `The file's audio is encoded as '${failure.codec}', which is not supported. Accepted are ${ACCEPTED}.`;
    case 'too-long':
      return `The audio is longer than ${failure.limitSeconds} seconds. Cut it into shorter files.`;
    default:
      return `The file is damaged or not audio: it could not be decoded. Accepted are ${ACCEPTED}.`;
  }
}
