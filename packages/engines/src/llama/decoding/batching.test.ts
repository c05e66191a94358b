import type { BatchItem, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { ALONE, createBatching, sharedBy, steadyBy } from './batching.ts';

const item = (tokens: number, evaluationPriority: BatchItem['evaluationPriority']): BatchItem => ({
  tokens: Array.from({ length: tokens }, () => 1 as Token),
  logits: [],
  evaluationPriority,
});

/** Work of the sequence of this number. */
const shared = (sequenceId: number, tokens = 1) => item(tokens, sharedBy(sequenceId));
const batching = () => createBatching({ lonePromptTokens: 128, sharedPromptTokens: 64 });
const next = (items: BatchItem[], { strategy } = batching()) => {
  const batch = strategy({ items, size: 256 });
  expect(batch.every((share) => share.processAmount === share.item.tokens.length)).toBe(true);
  return batch.map((share) => items.indexOf(share.item));
};

describe('createBatching', () => {
  it('puts all steps that may share into one batch, in the order of their sequences', () => {
    expect(next([shared(2), item(1, ALONE), shared(0), shared(4, 30), shared(7)])).toEqual([2, 0, 4]);
  });

  it('reads prompts in turns, the oldest first and never beside steps', () => {
    expect(next([shared(3, 40), shared(0), shared(4, 40), shared(1, 20)])).toEqual([0]);
    expect(next([shared(3, 100), shared(4, 100)])).toEqual([0]);
  });

  it('reads short prompts of equal length in neighbouring sequences together', () => {
    const prompts = [shared(3, 20), shared(1, 20), shared(5, 20), shared(2, 20), shared(0, 20), shared(4, 21)];
    expect(next(prompts)).toEqual([1, 3, 0]);
    expect(next([shared(0, 30), shared(1, 30), shared(2, 30)])).toEqual([0, 1]);
  });

  it('runs what must be reproducible alone, oldest first', () => {
    expect(next([item(1, ALONE), shared(0), item(1, ALONE)])).toEqual([0]);
    expect(next([item(64, ALONE), shared(0)])).toEqual([0]);
    expect(next([shared(0, 64), item(64, ALONE)])).toEqual([0]);
  });

  it('puts reproducible steps beside others, and runs reproducible prompts alone', () => {
    const steady = (sequenceId: number, tokens = 1) => item(tokens, steadyBy(sequenceId));
    expect(next([steady(2), shared(3), shared(0), steady(1)])).toEqual([2, 3, 0, 1]);
    expect(next([steady(2, 64), shared(3, 64)])).toEqual([0]);
    expect(next([shared(3, 32), steady(2, 32), shared(2, 32)])).toEqual([2, 0]);
  });

  it('reads larger chunks of a prompt while no other request is running', () => {
    const { share, chunkTokens } = batching();
    const ends = [share(), share()];
    expect(chunkTokens()).toBe(64);
    ends[1]?.();
    expect(chunkTokens()).toBe(128);
  });

  it('waits for a sequence that is about to queue its step, up to a limit', () => {
    const patient = batching();
    const three = [shared(0), shared(1), shared(2)];
    const ends = three.map(() => patient.share());
    expect(next(three.slice(0, 2), patient)).toEqual([]);
    expect(next(three, patient)).toHaveLength(3);
    const lengths = Array.from({ length: 100 }, () => next(three.slice(0, 2), patient).length);
    expect(lengths.indexOf(2)).toBe(64);
    ends[0]?.();
    expect(next(three.slice(0, 2), patient)).toHaveLength(2);
  });
});
