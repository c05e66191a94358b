import { createReadStream } from 'node:fs';
import { mkdtempDisposable, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { describe, expect, it } from 'vitest';
import { createSlots } from '../../../server/src/admission/slots.ts';
import { createAudioReader } from './reader.ts';

const DECODERS = 4;
const PER_ACCOUNT = 3;

const context = (accountId: string, signal = new AbortController().signal): CallContext => ({
  requestId: 'req',
  accountId,
  keyId: accountId,
  priority: 'interactive',
  signal,
});

function buildReader() {
  const decoders = createSlots({
    queueLength: 16,
    queueTimeoutMs: 60_000,
    maxPerAccount: PER_ACCOUNT,
    clock: systemClock,
  });
  decoders.setCapacity(DECODERS);
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
    // Accounts take turns: a request of the greedy one, then one of the other.
    for (const path of ['greedy 0', 'greedy 1']) {
      release.get(path)?.();
      await settled();
    }
    expect([...running]).toEqual(['greedy 2', 'a', 'greedy 3', 'b']);
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
