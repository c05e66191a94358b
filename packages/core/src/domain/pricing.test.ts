import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Consumption, NOTHING_USED } from './measures.ts';
import type { Pricing } from './model.ts';
import { decimalUnits } from './money.ts';
import { costNanoUsd } from './pricing.ts';

const pricing: Pricing = {
  promptPerMillion: 0.15,
  completionPerMillion: 0.6,
  cacheReadPerMillion: 0.015,
  audioPerMinute: 0.006,
};

const used = (changes: Partial<Consumption>): Consumption => ({ ...NOTHING_USED, ...changes });

/** Prices as people write them: cents and their fractions. */
const price = fc.option(
  fc.integer({ min: 0, max: 10_000_000 }).map((units) => units / 100_000),
  { nil: null },
);
const anyPricing: fc.Arbitrary<Pricing> = fc.record({
  promptPerMillion: price,
  completionPerMillion: price,
  cacheReadPerMillion: price,
  audioPerMinute: price,
});
const anyUse: fc.Arbitrary<Consumption> = fc
  .record({
    promptTokens: fc.nat(2_000_000),
    completionTokens: fc.nat(200_000),
    cached: fc.nat(100),
    audioSeconds: fc.nat(36_000),
  })
  .map(({ cached, ...rest }) => ({ ...rest, cacheReadTokens: Math.floor((rest.promptTokens * cached) / 100) }));

describe('price of a request', () => {
  it('adds up prompt, cached and generated tokens and seconds of audio', () => {
    expect(costNanoUsd(used({ promptTokens: 1_000_000 }), pricing)).toBe(150_000_000);
    expect(costNanoUsd(used({ completionTokens: 1 }), pricing)).toBe(600);
    expect(costNanoUsd(used({ audioSeconds: 90 }), pricing)).toBe(9_000_000);
    expect(costNanoUsd(used({ promptTokens: 1_000, cacheReadTokens: 900, completionTokens: 10 }), pricing)).toBe(
      100 * 150 + 900 * 15 + 10 * 600,
    );
  });

  it('rounds half up, once for the whole request', () => {
    const fine: Pricing = { ...pricing, promptPerMillion: 0.0004, completionPerMillion: 0.0001 };
    expect(costNanoUsd(used({ promptTokens: 1 }), fine)).toBe(0);
    expect(costNanoUsd(used({ promptTokens: 1, completionTokens: 1 }), fine)).toBe(1);
    expect(costNanoUsd(used({ promptTokens: 2, completionTokens: 2 }), fine)).toBe(1);
  });

  it('does not bill a kind that has no price', () => {
    const free: Pricing = {
      promptPerMillion: 1,
      completionPerMillion: null,
      cacheReadPerMillion: null,
      audioPerMinute: null,
    };
    const all = { promptTokens: 10, cacheReadTokens: 4, completionTokens: 1_000, audioSeconds: 60 };
    expect(costNanoUsd(all, free)).toBe(6_000);
  });

  it('takes a discount off', () => {
    expect(costNanoUsd(used({ promptTokens: 1_000_000 }), pricing, 50)).toBe(75_000_000);
    expect(costNanoUsd(used({ promptTokens: 1_000_000 }), pricing, 100)).toBe(0);
    expect(() => costNanoUsd(NOTHING_USED, pricing, 101)).toThrow(RangeError);
    expect(() => costNanoUsd(NOTHING_USED, pricing, 1.5)).toThrow(RangeError);
  });

  it('refuses impossible counts', () => {
    expect(() => costNanoUsd(used({ promptTokens: 1.5 }), pricing)).toThrow(RangeError);
    expect(() => costNanoUsd(used({ completionTokens: -1 }), pricing)).toThrow(RangeError);
    expect(() => costNanoUsd(used({ promptTokens: Number.NaN }), pricing)).toThrow(RangeError);
    expect(() => costNanoUsd(used({ promptTokens: 1, cacheReadTokens: 2 }), pricing)).toThrow(RangeError);
  });

  it('is within half a nano-dollar of the real price', () => {
    fc.assert(
      fc.property(anyUse, anyPricing, fc.nat(100), (use, prices, discount) => {
        const tokens =
          (use.promptTokens - use.cacheReadTokens) * (prices.promptPerMillion ?? 0) +
          use.cacheReadTokens * (prices.cacheReadPerMillion ?? 0) +
          use.completionTokens * (prices.completionPerMillion ?? 0);
        const usd = (tokens / 1e6 + (use.audioSeconds * (prices.audioPerMinute ?? 0)) / 60) * (1 - discount / 100);
        const difference = Math.abs(costNanoUsd(use, prices, discount) - usd * 1e9);
        expect(difference).toBeLessThanOrEqual(0.5 + usd * 1e-5);
      }),
    );
  });

  it('never falls when more is used', () => {
    fc.assert(
      fc.property(anyUse, anyPricing, fc.nat(1_000), (use, prices, more) => {
        const cost = costNanoUsd(use, prices);
        expect(costNanoUsd({ ...use, completionTokens: use.completionTokens + more }, prices)).toBeGreaterThanOrEqual(
          cost,
        );
        expect(costNanoUsd({ ...use, promptTokens: use.promptTokens + more }, prices)).toBeGreaterThanOrEqual(cost);
      }),
    );
  });
});

describe('price of tokens', () => {
  /** The same by the book: one fraction of big integers. */
  function byTheBook({ promptTokens, cacheReadTokens, completionTokens }: Consumption, prices: Pricing): bigint {
    const charge = (tokens: number, price: number | null) =>
      BigInt(tokens) * (price === null ? 0n : decimalUnits(price));
    const numerator =
      charge(promptTokens - cacheReadTokens, prices.promptPerMillion) +
      charge(cacheReadTokens, prices.cacheReadPerMillion) +
      charge(completionTokens, prices.completionPerMillion);
    const denominator = 10n ** 15n;
    return (2n * numerator + denominator) / (2n * denominator);
  }
  const mostTokens = 10 ** 9;
  const tokens = fc.oneof(fc.nat(10_000), fc.nat(2_000_000), fc.integer({ min: 0, max: mostTokens }));
  /** From finer than a nano-dollar for a million up to a thousand dollars, and those that lead to halves. */
  const anyPrice = fc.option(
    fc.oneof(
      fc.integer({ min: 0, max: 10_000_000 }).map((units) => units / 100_000),
      fc.integer({ min: 0, max: 10_000_000 }).map((units) => units / 10 ** 12),
      fc.constantFrom(0, 0.0005, 0.5, 1, 1000, 0.000_000_001, 0.000_000_000_5),
    ),
    { nil: null },
  );

  it('is the exact fraction, rounded half up, whatever was used and whatever it costs', () => {
    const uses = fc.record({ promptTokens: tokens, completionTokens: tokens, cached: fc.nat(100) });
    const prices = fc.record({
      promptPerMillion: anyPrice,
      completionPerMillion: anyPrice,
      cacheReadPerMillion: anyPrice,
      audioPerMinute: anyPrice,
    });
    fc.assert(
      fc.property(uses, prices, ({ cached, ...rest }, pricing) => {
        const cacheReadTokens = Math.floor((rest.promptTokens / 100) * cached);
        const use = { ...rest, cacheReadTokens, audioSeconds: 0 };
        expect(BigInt(costNanoUsd(use, pricing))).toBe(byTheBook(use, pricing));
      }),
      { numRuns: 5_000 },
    );
  });

  it('is exact on both sides of the largest sum that plain numbers hold', () => {
    const pricing = {
      promptPerMillion: 1000,
      completionPerMillion: 0.000_000_001,
      cacheReadPerMillion: null,
      audioPerMinute: null,
    };
    // 2^53 millionths of a nano-dollar are 9 007.199... tokens of 10^12 and some of 1.
    for (const completionTokens of [199_254_740_990, 199_254_740_991, 199_254_740_992, 199_254_740_993]) {
      const use = { promptTokens: 9_007, completionTokens, cacheReadTokens: 0, audioSeconds: 0 };
      expect(BigInt(costNanoUsd(use, pricing))).toBe(byTheBook(use, pricing));
    }
  });
});
