import type { Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import type { Sequence } from './sequence.ts';
import { createSlotPool, type SlotRequest } from './slots.ts';

const PIECE = 4;

/** Stands in for a sequence: only its token list matters here. */
function fakeSequence(id: number) {
  const tokens: Token[] = [];
  const sequence: Sequence & { tokens: Token[] } = {
    id,
    tokens,
    isForwardOnly: false,
    async truncate(length) {
      tokens.length = Math.min(length, tokens.length);
    },
    async read() {},
    score() {
      throw new Error('not here');
    },
    generate() {
      throw new Error('not here');
    },
  };
  return sequence;
}

function pool(count: number) {
  const sequences = Array.from({ length: count }, (_, id) => fakeSequence(id));
  const slots = createSlotPool({ sequences, chunkTokens: PIECE });
  const request = (tokens: number[], options: Partial<SlotRequest> = {}): SlotRequest => ({
    accountId: 'a',
    tokens,
    reproducible: false,
    fresh: false,
    signal: new AbortController().signal,
    ...options,
  });
  /** A request that evaluates its whole prompt and ends. */
  const serve = async (tokens: number[], options: Partial<SlotRequest> = {}) => {
    const lease = await slots.acquire(request(tokens, options));
    const { id } = lease.slot.sequence;
    sequences[id]?.tokens.push(...(tokens.slice(lease.cachedTokens) as Token[]));
    lease.slot.reproducibleTokens = tokens.length - (tokens.length % PIECE);
    await lease.release({ keep: true });
    return { cachedTokens: lease.cachedTokens, sequence: id };
  };
  return { slots, sequences, request, serve };
}

describe('createSlotPool', () => {
  it('reuses the longest common prefix of the same account', async () => {
    const { serve } = pool(2);
    await serve([1, 2, 3, 4, 5, 6]);
    await serve([9, 9, 9, 9, 9, 9]);
    expect(await serve([1, 2, 3, 4, 5, 7, 8])).toEqual({ cachedTokens: 5, sequence: 0 });
  });

  it('always leaves the last prompt token to evaluate', async () => {
    const { serve } = pool(1);
    await serve([1, 2, 3, 4, 5]);
    expect((await serve([1, 2, 3, 4, 5])).cachedTokens).toBe(4);
  });

  it('reuses only whole chunks where the result must not change', async () => {
    const { serve } = pool(1);
    await serve([1, 2, 3, 4, 5, 6, 7]);
    expect((await serve([1, 2, 3, 4, 5, 6, 7, 8], { reproducible: true })).cachedTokens).toBe(4);
  });

  it('never shares across accounts', async () => {
    const { serve, sequences } = pool(1);
    await serve([1, 2, 3, 4, 5]);
    expect((await serve([1, 2, 3, 4, 5], { accountId: 'b' })).cachedTokens).toBe(0);
    expect(sequences[0]?.tokens).toEqual([1, 2, 3, 4, 5]);
  });

  it('takes the slot unused for longest when nothing is common', async () => {
    const { serve } = pool(2);
    await serve([1, 1, 1, 1, 1]);
    await serve([2, 2, 2, 2, 2]);
    await serve([1, 1, 1, 1, 1, 1]);
    expect((await serve([3, 3, 3, 3, 3])).sequence).toBe(1);
  });

  it('keeps a long prefix while it is used, beside short requests that share little with it', async () => {
    const { serve } = pool(3);
    const tools = Array.from({ length: 1_000 }, (_, at) => at);
    await serve([...tools, -1]);
    for (let turn = 0; turn < 20; turn++) {
      for (let beside = 0; beside < 8; beside++) await serve([...tools.slice(0, 2 * PIECE), -2, turn, beside, -3]);
      expect((await serve([...tools, turn])).cachedTokens).toBe(tools.length);
    }
  });

  it('gives up a long prefix that is not used any more', async () => {
    const { serve } = pool(2);
    await serve(Array.from({ length: 1_000 }, (_, at) => at));
    const used = new Set<number>();
    for (let turn = 0; turn < 1_000; turn++) used.add((await serve([-1 - turn, 1, 2, 3, 4])).sequence);
    expect(used.size).toBe(2);
  });

  it('makes a request wait for a slot and removes it from the queue on abort', async () => {
    const { slots, request } = pool(1);
    const first = await slots.acquire(request([1]));
    const gone = new AbortController();
    const aborted = slots.acquire(request([2], { signal: gone.signal }));
    const waiting = slots.acquire(request([3]));
    gone.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'client_cancelled' });
    await first.release({ keep: true });
    const second = await waiting;
    expect(slots.busy).toBe(1);
    await second.release({ keep: false });
    expect(slots.busy).toBe(0);
  });

  it('tells those who wait when a slot cannot be cleared, and uses it again when it can', async () => {
    const { slots, sequences, request } = pool(1);
    const [sequence] = sequences;
    if (sequence === undefined) throw new Error('no sequence');
    const { truncate } = sequence;
    const first = await slots.acquire(request([1]));
    const told = expect(slots.acquire(request([2]))).rejects.toThrow('unloaded');
    sequence.truncate = () => Promise.reject(new Error('unloaded'));
    await expect(first.release({ keep: false })).rejects.toThrow('unloaded');
    await told;
    sequence.truncate = truncate;
    expect((await slots.acquire(request([3]))).cachedTokens).toBe(0);
  });
});
