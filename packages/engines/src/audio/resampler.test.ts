import { describe, expect, it } from 'vitest';
import { createResampler } from './resampler.ts';

const sine = (hertz: number, rate: number, seconds: number) =>
  Float32Array.from({ length: Math.round(rate * seconds) }, (_, i) => Math.sin((2 * Math.PI * hertz * i) / rate));

function resample(input: Float32Array, fromRate: number, pieces = [input.length]): Float32Array {
  const resampler = createResampler(fromRate, 16_000);
  const output: number[] = [];
  let at = 0;
  for (const length of pieces) {
    output.push(...resampler.push(input.subarray(at, at + length)));
    at += length;
  }
  output.push(...resampler.push(input.subarray(at)), ...resampler.flush());
  return Float32Array.from(output);
}

const level = (samples: Float32Array) => {
  const middle = samples.subarray(2_000, -2_000);
  return Math.sqrt(middle.reduce((sum, value) => sum + value * value, 0) / middle.length);
};

describe('createResampler', () => {
  it.each([8_000, 11_025, 22_050, 44_100, 48_000, 96_000])('keeps a tone of 1 kHz at %d Hz in place', (rate) => {
    const output = resample(sine(1_000, rate, 1), rate);
    const expected = sine(1_000, 16_000, 1);
    expect(Math.abs(output.length - 16_000)).toBeLessThanOrEqual(1);
    for (let i = 2_000; i < 14_000; i += 7) expect(output[i]).toBeCloseTo(expected[i] ?? 0, 3);
  });

  it('filters out frequencies above 8 kHz without aliasing', () => {
    expect(level(resample(sine(11_000, 48_000, 1), 48_000))).toBeLessThan(1e-3);
  });

  it('gives the same samples for any chunk sizes', () => {
    const input = sine(440, 44_100, 0.5);
    expect(resample(input, 44_100, [1, 50, 333, 4_096])).toEqual(resample(input, 44_100));
  });

  it('leaves 16 kHz alone', () => {
    const input = sine(440, 16_000, 0.1);
    expect(resample(input, 16_000)).toEqual(input);
  });
});
