import { describe, expect, it } from 'vitest';
import { MAX_FLOAT_BYTES, writeFloat } from './float-text.ts';

function text(value: number): string {
  const buffer = Buffer.alloc(MAX_FLOAT_BYTES);
  return buffer.toString('latin1', 0, writeFloat(value, buffer, 0));
}

describe('writeFloat', () => {
  it('writes the shortest digits of a float32, not those of a float64', () => {
    expect(text(Math.fround(0.1))).toBe('0.1');
    expect(text(Math.fround(-0.25))).toBe('-0.25');
    expect(text(Math.fround(0.123456789))).toBe('0.12345679');
    expect(text(0)).toBe('0');
    expect(text(1)).toBe('1');
    expect(text(Math.fround(0.99999994))).toBe('0.99999994');
    expect(text(Math.fround(1e-6))).toBe('0.000001');
  });

  it('gives every value back, of any size', () => {
    const bits = new Uint32Array(1);
    const floats = new Float32Array(bits.buffer);
    let state = 1;
    for (let round = 0; round < 200_000; round += 1) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      bits[0] = state;
      const value = floats[0] as number;
      if (!Number.isFinite(value)) continue;
      const written = text(value);
      if (written.length >= MAX_FLOAT_BYTES) throw new Error(`${value} takes ${written.length} bytes`);
      if (Math.fround(Number(written)) !== value) throw new Error(`${value} became ${written}`);
      const unit = Math.fround((state / 2 ** 32) * 2 - 1);
      if (Math.fround(Number(text(unit))) !== unit) throw new Error(`${unit} became ${text(unit)}`);
    }
  });

  it('never needs more digits than the runtime needs for the same value', () => {
    for (let step = 1; step < 5000; step += 1) {
      const value = Math.fround(step / 7919);
      expect(text(value).length).toBeLessThanOrEqual(String(value).length);
    }
  });

  it('writes null for what JSON cannot hold', () => {
    expect(text(Number.NaN)).toBe('null');
    expect(text(Number.NEGATIVE_INFINITY)).toBe('null');
  });
});
