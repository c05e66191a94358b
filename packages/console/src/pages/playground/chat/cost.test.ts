import { expect, it } from 'vitest';
import type { Model } from '../../../api/types.ts';
import { costOf } from './cost.ts';

const model = (pricing: Partial<Model['pricing']>) =>
  ({
    pricing: {
      prompt_per_million: null,
      completion_per_million: null,
      cache_read_per_million: null,
      audio_per_minute: null,
      ...pricing,
    },
  }) as Model;

it('adds up input, cached input and output', () => {
  const priced = model({ prompt_per_million: 2, completion_per_million: 6, cache_read_per_million: 1 });
  expect(costOf(priced, { prompt_tokens: 1000, cached_tokens: 400, completion_tokens: 100 })).toBeCloseTo(0.0022, 12);
});

it('bills cached input as input where it has no price of its own', () => {
  expect(costOf(model({ prompt_per_million: 2 }), { prompt_tokens: 1000, cached_tokens: 400 })).toBeCloseTo(0.002, 12);
});

it('bills audio by the second', () => {
  expect(costOf(model({ audio_per_minute: 0.006 }), { seconds: 30 })).toBeCloseTo(0.003, 12);
});
