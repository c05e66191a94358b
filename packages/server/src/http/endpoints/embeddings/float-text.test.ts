import { describe, expect, it } from 'vitest';
import { MAX_FLOAT_BYTES, writeFloat, writeFloats } from './float-text.ts';

function text(value: number): string {
  const buffer = Buffer.alloc(MAX_FLOAT_BYTES);
  return buffer.toString('latin1', 0, writeFloat(value, buffer, 0));
}

function texts(values: Float32Array): string {
  const buffer = Buffer.alloc(values.length * MAX_FLOAT_BYTES);
  return buffer.toString('latin1', 0, writeFloats(values, buffer, 0));
}

/** Values from these bits on, a fixed step apart, with alternating signs. */
function floatsFrom(bits: number, { count, step }: { count: number; step: number }): Float32Array {
  return new Float32Array(
    Int32Array.from({ length: count }, (_, index) => (bits + index * step) | (index % 2 === 0 ? 0 : 0x80000000)).buffer,
  );
}
const bitsOf = (value: number): number => new Int32Array(Float32Array.of(value).buffer)[0] as number;

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

  it('writes values of any size that parse to the same float32', () => {
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

  it('writes null for infinity and NaN', () => {
    expect(text(Number.NaN)).toBe('null');
    expect(text(Number.NEGATIVE_INFINITY)).toBe('null');
  });
});

describe('writeFloats', () => {
  const expectSame = (values: Float32Array) => {
    const written = texts(values);
    const expected = Array.from(values, (value) => `${text(value)},`).join('');
    // The test runner would take minutes to compare megabytes of text.
    if (written === expected) return;
    const each = written.split(',');
    values.forEach((value, index) => {
      expect(each[index], `at ${value}`).toBe(text(value));
    });
  };

  it('writes what writeFloat writes, over the whole range of float32', () => {
    expectSame(floatsFrom(0, { count: 100_000, step: 21_391 }));
  });

  it('writes what writeFloat writes, densely over the values of unit vectors', () => {
    const [first, last] = [bitsOf(9e-7), bitsOf(1.01)];
    const step = 419;
    expectSame(floatsFrom(first, { count: Math.ceil((last - first) / step), step }));
  });

  it('writes what writeFloat writes around powers of ten and two', () => {
    for (let exponent = 0; exponent > -8; exponent -= 1) {
      expectSame(floatsFrom(bitsOf(10 ** exponent) - 2_000, { count: 4_000, step: 1 }));
    }
    for (let exponent = 1; exponent > -24; exponent -= 1) {
      expectSame(floatsFrom(bitsOf(2 ** exponent) - 200, { count: 400, step: 1 }));
    }
  });

  it('writes what writeFloat writes for zeros, short decimals, infinity and NaN', () => {
    expectSame(Float32Array.of(0, -0, 0.5, -0.1, 0.125, 0.3, 1, -2, 1e-7, 3e38, Number.NaN, Number.POSITIVE_INFINITY));
    expectSame(Float32Array.from({ length: 20_000 }, (_, index) => (index - 10_000) / 10_000));
  });

  it('appends at an offset, also in a part of a larger buffer', () => {
    const buffer = Buffer.alloc(100).subarray(10);
    buffer.write('[');
    const end = writeFloats(Float32Array.of(9, 0.25, -0.7310585, 9).subarray(1, 3), buffer, 1);
    expect(buffer.toString('latin1', 0, end)).toBe('[0.25,-0.7310585,');
  });
});
