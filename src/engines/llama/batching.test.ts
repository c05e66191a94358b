import type { BatchItem, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { ALONE, createBatching, SHARED } from './batching.ts';

const item = (tokens: number, evaluationPriority: BatchItem['evaluationPriority']): BatchItem => ({
  tokens: Array.from({ length: tokens }, () => 1 as Token),
  logits: [],
  evaluationPriority,
});

describe('createBatching', () => {
  it('puts the steps that promised nothing into one batch, as many as fit', () => {
    const items = [item(20, SHARED), item(64, ALONE), item(60, SHARED), item(1, SHARED), item(1, ALONE)];
    expect(createBatching().strategy({ items, size: 64 })).toEqual([
      { item: items[0], processAmount: 20 },
      { item: items[3], processAmount: 1 },
    ]);
  });

  it('runs prompt pieces and reproducible steps alone, oldest first', () => {
    const { strategy } = createBatching();
    const steps = [item(1, ALONE), item(1, SHARED)];
    expect(strategy({ items: steps, size: 64 })).toEqual([{ item: steps[0], processAmount: 1 }]);
    const pieces = [item(64, ALONE), item(1, SHARED)];
    expect(strategy({ items: pieces, size: 64 })).toEqual([{ item: pieces[0], processAmount: 64 }]);
  });

  it('waits a little for a sequence that is about to queue its step, and not for ever', () => {
    const { strategy, share } = createBatching();
    const three = [item(1, SHARED), item(1, SHARED), item(1, SHARED)];
    const ends = three.map(() => share());
    expect(strategy({ items: three.slice(0, 2), size: 64 })).toEqual([]);
    expect(strategy({ items: three, size: 64 })).toHaveLength(3);
    const patient = Array.from({ length: 100 }, () => strategy({ items: three.slice(0, 2), size: 64 }).length);
    expect(patient.indexOf(2)).toBe(64);
    ends[0]?.();
    expect(strategy({ items: three.slice(0, 2), size: 64 })).toHaveLength(2);
  });
});
