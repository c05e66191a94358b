import { describe, expect, it, vi } from 'vitest';
import { createProgressView, formatBytes, formatDuration, sayWhenSlow } from './progress.ts';

const HALF = {
  file: 'model.gguf',
  receivedBytes: 161_295_856,
  totalBytes: 322_591_712,
  bytesPerSecond: 31e6,
  secondsLeft: 5.2,
};

function capture(options: { isTTY?: boolean; columns?: number }) {
  let text = '';
  let nowMs = 0;
  const target = { ...options, write: (part: string) => (text += part) };
  const view = createProgressView(target, { now: () => nowMs });
  return { view, text: () => text, advance: (ms: number) => (nowMs += ms) };
}

describe('createProgressView', () => {
  it('draws a bar with bytes, speed and time left over itself on a terminal', () => {
    const { view, text } = capture({ isTTY: true, columns: 120 });
    view.update('tinyllama', HALF);
    view.finish('tinyllama: done');
    expect(text()).toBe(
      '\r\u001b[2Ktinyllama  ████████████░░░░░░░░░░░░ 50 %  161.3 MB of 322.6 MB  31.0 MB/s  6 s left' +
        '\r\u001b[2Ktinyllama: done\n',
    );
  });

  it('never draws a line that would wrap', () => {
    const { view, text } = capture({ isTTY: true, columns: 30 });
    view.update('tinyllama', HALF);
    expect([...text().replace('\r\u001b[2K', '')]).toHaveLength(29);
  });

  it('prints a plain line every five seconds elsewhere', () => {
    const { view, text, advance } = capture({});
    view.update('tinyllama', HALF);
    advance(4_999);
    view.update('tinyllama', HALF);
    advance(1);
    view.update('tinyllama', { ...HALF, receivedBytes: 322_591_712, secondsLeft: 0 });
    view.finish('tinyllama: done');
    expect(text()).toBe(
      'tinyllama: 50 %, 161.3 MB of 322.6 MB, 31.0 MB/s, 6 s left\n' +
        'tinyllama: 100 %, 322.6 MB of 322.6 MB, 31.0 MB/s, 0 s left\n' +
        'tinyllama: done\n',
    );
  });

  it('leaves out what is not known', () => {
    const { view, text } = capture({});
    view.update('x', { file: 'a', receivedBytes: 1500, totalBytes: null, bytesPerSecond: 0, secondsLeft: null });
    expect(text()).toBe('x: 1.5 kB\n');
  });
});

it('writes sizes and durations for people', () => {
  expect([999, 1_500, 2_500_000, 3e9].map(formatBytes)).toEqual(['999 B', '1.5 kB', '2.5 MB', '3.00 GB']);
  expect([0.2, 61, 3_725].map(formatDuration)).toEqual(['1 s', '1 min 1 s', '1 h 2 min']);
});

describe('a slow step', () => {
  it('says what it does after a second, and nothing when it is faster', async () => {
    vi.useFakeTimers();
    try {
      const said: string[] = [];
      const say = (text: string) => said.push(text);
      expect(await sayWhenSlow('hashing', Promise.resolve(7), say)).toBe(7);
      const { promise, resolve } = Promise.withResolvers<number>();
      const slow = sayWhenSlow('checking', promise, say);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(said).toEqual(['checking…']);
      resolve(1);
      await slow;
    } finally {
      vi.useRealTimers();
    }
  });
});
