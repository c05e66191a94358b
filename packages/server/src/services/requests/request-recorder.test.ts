import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createRequestRecorder } from './request-recorder.ts';

const entry = (id: number): RequestEntry => ({
  id: `req_${id}`,
  time: id,
  accountId: 'acct_1',
  keyId: 'key_1',
  endpoint: '/v1/embeddings',
  model: null,
  version: null,
  region: null,
  status: 200,
  code: null,
  message: null,
  promptTokens: 0,
  completionTokens: 0,
  cacheReadTokens: 0,
  audioSeconds: 0,
  costNanoUsd: 0,
  durationMs: 1,
  firstTokenMs: null,
  replayed: false,
  attempts: [],
});

/** A log whose writes end when the test says so. */
function slowLog() {
  const sizes: number[] = [];
  const ends: (() => void)[] = [];
  return {
    sizes,
    endOldest: () => ends.shift()?.(),
    collect() {
      const entries: RequestEntry[] = [];
      return {
        get size() {
          return entries.length;
        },
        add: (added: RequestEntry) => entries.push(added),
        store() {
          sizes.push(entries.length);
          return new Promise<void>((resolve) => ends.push(resolve));
        },
      };
    },
  };
}

describe('request recorder', () => {
  afterEach(() => {
    vi.useRealTimers();
  });
  const start = () => {
    vi.useFakeTimers();
    const log = slowLog();
    const recorder = createRequestRecorder({ log, onError: () => {}, maxWaiting: 2_000 });
    const record = (count: number) => {
      for (let number = 0; number < count; number += 1) recorder.record(entry(number));
    };
    return { log, recorder, record };
  };

  it('writes what has waited long enough, and at once when there is enough', async () => {
    const { log, record } = start();
    record(3);
    await vi.advanceTimersByTimeAsync(499);
    expect(log.sizes).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(log.sizes).toEqual([3]);
    log.endOldest();
    record(500);
    await vi.advanceTimersByTimeAsync(0);
    expect(log.sizes).toEqual([3, 500]);
  });

  it('leaves those that arrive during a write for a group of their own', async () => {
    const { log, record } = start();
    record(500);
    await vi.advanceTimersByTimeAsync(0);
    record(20);
    log.endOldest();
    await vi.advanceTimersByTimeAsync(499);
    expect(log.sizes).toEqual([500]);
    await vi.advanceTimersByTimeAsync(1);
    expect(log.sizes).toEqual([500, 20]);
    record(700);
    log.endOldest();
    await vi.advanceTimersByTimeAsync(0);
    expect(log.sizes).toEqual([500, 20, 500]);
    log.endOldest();
    await vi.advanceTimersByTimeAsync(0);
    expect(log.sizes).toEqual([500, 20, 500, 200]);
  });

  it('flushes what was recorded before, also during a write', async () => {
    const { log, recorder, record } = start();
    record(500);
    await vi.advanceTimersByTimeAsync(0);
    record(2);
    let isFlushed = false;
    const flushed = recorder.flush().then(() => {
      isFlushed = true;
    });
    log.endOldest();
    await vi.advanceTimersByTimeAsync(0);
    expect(log.sizes).toEqual([500, 2]);
    expect(isFlushed).toBe(false);
    log.endOldest();
    await flushed;
    // Nothing is left: no timer writes again.
    await vi.advanceTimersByTimeAsync(1_000);
    expect(log.sizes).toEqual([500, 2]);
  });

  it('leaves entries out when too many wait', async () => {
    const { log, recorder, record } = start();
    record(500);
    await vi.advanceTimersByTimeAsync(0);
    record(2_001);
    expect(recorder.dropped).toBe(1);
    for (let write = 0; write < 5; write += 1) {
      log.endOldest();
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(log.sizes).toEqual([500, 500, 500, 500, 500]);
    record(1);
    expect(recorder.dropped).toBe(1);
  });
});
