import type { AudioWindow } from '@baobab/core/ports/file-readers.ts';
import { describe, expect, it } from 'vitest';
import { SAMPLE_RATE } from './protocol.ts';
import { cutWindows } from './windows.ts';

const tone = (seconds: number, amplitude = 0.3) =>
  Float32Array.from({ length: Math.round(seconds * SAMPLE_RATE) }, (_, i) => amplitude * Math.sin(i * 0.2));
const silence = (seconds: number) => new Float32Array(Math.round(seconds * SAMPLE_RATE));

async function* inChunks(parts: readonly Float32Array[], size = 7001) {
  const whole = Float32Array.from(parts.flatMap((part) => [...part]));
  for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size);
}

async function cut(...parts: Float32Array[]) {
  const windows: AudioWindow[] = [];
  const iterator = cutWindows(inChunks(parts));
  for (;;) {
    const next = await iterator.next();
    if (next.done) return { windows, durationSeconds: next.value.durationSeconds };
    windows.push(next.value);
  }
}
const lengths = (windows: readonly AudioWindow[]) => windows.map((window) => window.samples.length / SAMPLE_RATE);

describe('cutWindows', () => {
  it('leaves a short clip whole', async () => {
    const { windows, durationSeconds } = await cut(tone(4.2));
    expect(windows.map((window) => window.startSeconds)).toEqual([0]);
    expect(lengths(windows)).toEqual([4.2]);
    expect(durationSeconds).toBeCloseTo(4.2, 6);
  });

  it('cuts in the pause, not in the middle of a word', async () => {
    const { windows } = await cut(tone(24), silence(0.6), tone(20));
    expect(windows).toHaveLength(2);
    expect(lengths(windows)[0]).toBeGreaterThan(24);
    expect(lengths(windows)[0]).toBeLessThan(24.6);
    expect(windows[1]?.startSeconds).toBeCloseTo(lengths(windows)[0] ?? 0, 6);
  });

  it('keeps every sample and windows of at most 30 s where there is no pause', async () => {
    const { windows, durationSeconds } = await cut(tone(95));
    expect(Math.max(...lengths(windows))).toBeLessThanOrEqual(30);
    expect(lengths(windows).reduce((sum, length) => sum + length, 0)).toBeCloseTo(95, 6);
    expect(durationSeconds).toBe(95);
  });

  it('skips a long silence and still knows the time', async () => {
    const { windows, durationSeconds } = await cut(silence(75), tone(3), silence(40), tone(2), silence(1));
    expect(windows.map((window) => Math.round(window.startSeconds))).toEqual([75, 118]);
    expect(durationSeconds).toBeCloseTo(121, 6);
  });

  it('gives no window for silence', async () => {
    expect(await cut(silence(42))).toEqual({ windows: [], durationSeconds: 42 });
  });

  it('gives nothing for no audio', async () => {
    expect(await cut()).toEqual({ windows: [], durationSeconds: 0 });
  });
});
