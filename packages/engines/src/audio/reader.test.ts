import { createReadStream } from 'node:fs';
import { mkdtempDisposable, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { beforeAll, describe, expect, it } from 'vitest';
import { createSlots } from '../../../server/src/admission/slots.ts';
import { sealOf } from '../seccomp/testing/seal-of.ts';
import { SAMPLE_RATE } from './protocol.ts';
import { createAudioReader, type DecodeLimits, decodeAudio } from './reader.ts';

const DECODERS = 4;
const PER_ACCOUNT = 3;

const context = (accountId: string, signal?: AbortSignal) => callContext(signal, { accountId, keyId: accountId });

function buildReader() {
  const decoders = createSlots({
    queueLength: 16,
    queueTimeoutMs: 60_000,
    clock: systemClock,
  });
  decoders.setCapacity(DECODERS, PER_ACCOUNT);
  const running = new Set<string>();
  const release = new Map<string, () => void>();
  /** A decoder that gives one second of audio when the test says so. */
  async function* decode(path: string) {
    running.add(path);
    try {
      await new Promise<void>((resolve) => release.set(path, resolve));
      yield new Float32Array(16_000);
    } finally {
      running.delete(path);
    }
  }
  const reader = createAudioReader({ temporaryDirectory: '/unused', decoders, decode });
  const read = (path: string, of: CallContext) => Array.fromAsync(reader.read({ path }, of));
  return { decoders, running, release, read };
}

describe('createAudioReader', () => {
  it('reads a stream by way of a temporary file and removes it', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'audio-'));
    const { decoders } = buildReader();
    const reader = createAudioReader({ temporaryDirectory: directory.path, decoders });
    const stream = createReadStream(join(import.meta.dirname, '../../../../test/fixtures/audio/apples.m4a'));
    const windows = await Array.fromAsync(reader.read({ stream }, context('a')));
    expect(windows.map((window) => window.startSeconds)).toEqual([expect.closeTo(0.2, 0)]);
    expect(await readdir(directory.path)).toEqual([]);
    expect(decoders.inUse()).toBe(0);
  });
});

describe('a reader that is asked to stop', () => {
  const path = join(import.meta.dirname, '../../../../test/fixtures/audio/apples.m4a');

  it('ends with what it may decode, and gives the decoder back', async () => {
    const { decoders } = buildReader();
    const reader = createAudioReader({ temporaryDirectory: '/unused', decoders });
    const asked: number[] = [];
    const windows = reader.read({ path }, context('a'), async (seconds) => {
      asked.push(seconds);
      return seconds <= 2;
    });
    const first = await windows.next();
    expect(first).toMatchObject({ done: false, value: { startSeconds: expect.closeTo(0.2, 0) } });
    expect(await windows.next()).toEqual({ done: true, value: { durationSeconds: 2 } });
    expect(asked).toEqual([1, 2, 3]);
    expect(decoders.inUse()).toBe(0);
  });
});

const settled = () => new Promise(setImmediate);

describe('decoders of audio', () => {
  it('are bounded in all, and no account holds every one of them', async () => {
    const { running, release, read, decoders } = buildReader();
    const greedy = Array.from({ length: 14 }, (_, n) => read(`greedy ${n}`, context('greedy')));
    await settled();
    expect([...running]).toEqual(['greedy 0', 'greedy 1', 'greedy 2']);
    const modest = ['a', 'b'].map((account) => read(account, context(account)));
    await settled();
    expect([...running].slice(PER_ACCOUNT)).toEqual(['a']);
    expect(decoders.waiting()).toBe(12);
    // The account that was given the least goes first.
    for (const path of ['greedy 0', 'greedy 1']) {
      release.get(path)?.();
      await settled();
    }
    expect([...running]).toEqual(['greedy 2', 'a', 'b', 'greedy 3']);
    while (running.size > 0) {
      for (const path of running) release.get(path)?.();
      await settled();
    }
    await Promise.all([...greedy, ...modest]);
    expect(decoders.inUse()).toBe(0);
  });

  it('are given back when the reader stops early or is cancelled while it waits', async () => {
    const { decoders, release, read, running } = buildReader();
    const client = new AbortController();
    const first = [1, 2, 3].map((n) => read(`first ${n}`, context('a')));
    await settled();
    const waiting = expect(read('late', context('a', client.signal))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    client.abort();
    await waiting;
    expect([decoders.inUse(), decoders.waiting()]).toEqual([3, 0]);
    for (const path of running) release.get(path)?.();
    await Promise.all(first);
    expect(decoders.inUse()).toBe(0);
  });
});

const CLIPS = join(import.meta.dirname, '../../../../test/fixtures/audio');
const clip = (name: string) => join(CLIPS, name);

async function decode(path: string, limits?: Partial<DecodeLimits>): Promise<Float32Array> {
  const chunks: Float32Array[] = [];
  for await (const chunk of decodeAudio(path, { signal: new AbortController().signal, limits })) chunks.push(chunk);
  return Float32Array.from(chunks.flatMap((chunk) => [...chunk]));
}

async function refused(path: string, limits?: Partial<DecodeLimits>): Promise<ApiError> {
  try {
    await decode(path, limits);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('the file was decoded');
}

/** Correlation at the best shift of up to 100 ms either way: encoders add a little silence before the first sample. */
function similarity(a: Float32Array, b: Float32Array): number {
  let best = 0;
  for (let shift = -1600; shift <= 1600; shift += 4) {
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = 20_000; i < 50_000; i += 2) {
      const [x, y] = [a[i] ?? 0, b[i + shift] ?? 0];
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    best = Math.max(best, ab / Math.sqrt(aa * bb));
  }
  return best;
}

describe('decodeAudio', () => {
  let reference: Float32Array;
  beforeAll(async () => {
    const bytes = await readFile(clip('apples.wav'));
    const at = bytes.indexOf('data') + 8;
    reference = Float32Array.from(
      { length: (bytes.length - at) / 2 },
      (_, i) => bytes.readInt16LE(at + 2 * i) / 32_768,
    );
  });

  it('reads 16-bit wav exactly', async () => {
    expect(await decode(clip('apples.wav'))).toEqual(reference);
  });

  it.each([
    ['apples.flac', 0.9999],
    ['apples.mp3', 0.98],
    ['apples.stereo-44100.mp3', 0.98],
    ['apples.vorbis.ogg', 0.95],
    ['apples.opus.ogg', 0.9],
    ['apples.m4a', 0.98],
    ['apples.fragmented.m4a', 0.98],
    ['apples.opus.webm', 0.9],
    ['apples.vorbis.webm', 0.95],
    ['apples.8000-mulaw.wav', 0.9],
  ])('reads %s as mono at 16 kHz', async (name, least) => {
    const samples = await decode(clip(name));
    expect(Math.abs(samples.length - reference.length) / SAMPLE_RATE).toBeLessThan(0.15);
    expect(similarity(reference, samples)).toBeGreaterThan(least);
  });

  it
    .runIf(process.platform === 'linux')
    .each([
      ...['apples.wav', 'apples.flac', 'apples.mp3', 'apples.vorbis.ogg', 'apples.opus.ogg', 'apples.m4a'],
      ...['apples.opus.webm', 'apples.vorbis.webm'],
    ])('decodes %s in a process that the kernel has sealed', async (name) => {
    const chunks = decodeAudio(clip(name), { signal: new AbortController().signal });
    expect((await chunks.next()).value).toBeInstanceOf(Float32Array);
    // It waits to write the rest.
    expect(sealOf('audio/decoder-process.ts')).toEqual(['2']);
    await chunks.return(undefined);
  });

  it('reports whether the process was sealed', async () => {
    const reasons: (string | undefined)[] = [];
    const chunks = decodeAudio(clip('apples.wav'), {
      signal: new AbortController().signal,
      onSeal: (reason) => reasons.push(reason),
    });
    await Array.fromAsync(chunks);
    expect(reasons.map((reason) => reason === undefined)).toEqual([process.platform === 'linux']);
  });

  it('mixes and resamples 24-bit stereo at 48 kHz', async () => {
    const samples = await decode(clip('apples.stereo-48000-24bit.wav'));
    expect(samples).toHaveLength(SAMPLE_RATE);
  });

  it('refuses a file that is not audio', async () => {
    const error = await refused(join(import.meta.dirname, '../../../../package.json'));
    expect(error).toMatchObject({ code: 'invalid_parameter', status: 400, param: 'file' });
    expect(error.message).toMatch(
      /^The file is not audio in a format that is known here\. Accepted are wav, mp3, flac/,
    );
  });

  it('refuses audio over the limit instead of cutting it', async () => {
    expect((await refused(clip('apples.mp3'), { maxSeconds: 2 })).message).toBe(
      'The audio is longer than 2 seconds. Cut it into shorter files.',
    );
  });

  it('ends a decoder that takes too much memory', async () => {
    const error = await refused(clip('apples.m4a'), { maxMemoryBytes: 1 });
    expect(error.message).toMatch(/needs more memory/);
  });

  it('ends a decoder that takes too much processor time', async () => {
    expect((await refused(clip('apples.m4a'), { stallCpuSeconds: 0 })).message).toMatch(/needs more time/);
  });

  it('ends a decoder that takes too long', async () => {
    expect((await refused(clip('apples.m4a'), { stallTimeoutMs: 1 })).message).toMatch(/needs more time/);
  });

  it('reports an internal error when the decoder cannot start', async () => {
    const node = process.execPath;
    for (const [instead, why] of [
      ['/bin/false', /it ended with 1$/],
      // 127: setpriv did not find it.
      ['/none', /it ended with (null|127)$/],
    ] as const) {
      process.execPath = instead;
      try {
        const error = await decode(clip('apples.wav')).catch((thrown: unknown) => thrown);
        expect(error).not.toBeInstanceOf(ApiError);
        expect((error as Error).message).toMatch(/^the audio decoder did not start: /);
        expect((error as Error).message).toMatch(why);
      } finally {
        process.execPath = node;
      }
    }
  });

  it('stops when the signal fires', async () => {
    const abort = new AbortController();
    const chunks = decodeAudio(clip('weather.ogg'), { signal: abort.signal });
    await chunks.next();
    abort.abort(new Error('client left'));
    await expect(Array.fromAsync(chunks)).rejects.toThrow('client left');
  });

  it('answers 400 for truncated or damaged files, or returns the intact part', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'audio-'));
    for (const name of [
      'apples.wav',
      'apples.flac',
      'apples.mp3',
      'apples.vorbis.ogg',
      'apples.m4a',
      'apples.opus.webm',
    ]) {
      const bytes = await readFile(clip(name));
      const damaged = Buffer.from(bytes);
      for (let i = 16; i < damaged.length; i += 37) damaged[i] = (i * 7919) % 256;
      for (const [label, content] of [
        ['cut', bytes.subarray(0, bytes.length / 2)],
        ['damaged', damaged],
      ] as const) {
        const path = join(directory.path, `${label}-${name}`);
        await writeFile(path, content);
        const outcome = await decode(path).catch((error: unknown) => error);
        if (outcome instanceof Float32Array) expect(outcome.every(Number.isFinite)).toBe(true);
        else expect(outcome).toMatchObject({ code: 'invalid_parameter', param: 'file' });
      }
    }
  });
});
