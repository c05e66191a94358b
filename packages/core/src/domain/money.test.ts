import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decimalUnits, usdNumber, usdText } from './money.ts';

describe('money', () => {
  it('reads a number as the decimal that was written', () => {
    expect(decimalUnits(0.1)).toBe(10n ** 17n);
    expect(decimalUnits(12.34)).toBe(1234n * 10n ** 16n);
    expect(decimalUnits(1e-7)).toBe(10n ** 11n);
    expect(decimalUnits(1.5e21)).toBe(15n * 10n ** 38n);
    expect(decimalUnits(0)).toBe(0n);
  });

  it('refuses values that are not a price', () => {
    for (const value of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e-19]) {
      expect(() => decimalUnits(value)).toThrow(RangeError);
    }
  });

  it('writes exact decimals', () => {
    expect(usdText(0)).toBe('0');
    expect(usdText(1)).toBe('0.000000001');
    expect(usdText(1_500_000_000n)).toBe('1.5');
    expect(usdText(-20)).toBe('-0.00000002');
    expect(usdText(12_345_678_901_234_567_890n)).toBe('12345678901.23456789');
  });

  it('gives JSON numbers that read as the exact decimal, up to a million dollars', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 999_999_999_999_999n }), (nanoUsd) => {
        const number = Number(JSON.stringify(usdNumber(nanoUsd)));
        expect(decimalUnits(number)).toBe(nanoUsd * 10n ** 9n);
      }),
    );
  });
});
