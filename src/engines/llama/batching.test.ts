import type { BatchItem, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { ALONE, batchStrategy, SHARED } from './batching.ts';

const item = (tokens: number, evaluationPriority: BatchItem['evaluationPriority']): BatchItem => ({
  tokens: Array.from({ length: tokens }, () => 1 as Token),
  logits: [],
  evaluationPriority,
});

describe('batchStrategy', () => {
  it('puts single steps that promised nothing into one batch', () => {
    const items = [item(1, SHARED), item(64, ALONE), item(1, SHARED), item(1, ALONE)];
    expect(batchStrategy({ items, size: 64 }).map((entry) => entry.item)).toEqual([items[0], items[2]]);
  });

  it('runs prompt pieces and reproducible steps alone, oldest first', () => {
    const items = [item(1, ALONE), item(1, SHARED)];
    expect(batchStrategy({ items, size: 64 })).toEqual([{ item: items[0], processAmount: 1 }]);
    const prompt = [item(64, SHARED), item(1, SHARED)];
    expect(batchStrategy({ items: prompt, size: 64 })).toEqual([{ item: prompt[0], processAmount: 64 }]);
  });
});
