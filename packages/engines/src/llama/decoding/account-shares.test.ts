import fc from 'fast-check';
import type { Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import type { AddonContext } from './addon.ts';
import { createBatching, sharedBy } from './batching.ts';
import { createDecodeLoop } from './decode-loop.ts';

const CHUNK = 64;
const BATCH_MS = 5;
const TOKEN_MS = 0.5;

interface Batch {
  /** Of an account in it. */
  accounts: Set<string>;
  ms: number;
}

interface Reader {
  account: string;
  weight?: number;
  /** In chunks. */
  prompt: number;
  /** Tokens that it writes after its prompt. */
  answer: number;
  /** Batches before it comes. */
  after: number;
}

/** Lets sequences read and write on a model that takes the same for each batch and each token. Returns the batches in their order. */
async function run(readers: readonly Reader[]): Promise<Batch[]> {
  const batches: Batch[] = [];
  let time = 0;
  let batch: Batch = { accounts: new Set(), ms: 0 };
  const later = readers.map((_, id) => id);
  const context = {
    setThreads() {},
    initBatch(tokens: number) {
      batch = { accounts: new Set(), ms: BATCH_MS + tokens * TOKEN_MS };
    },
    addToBatch(sequenceId: number) {
      batch.accounts.add(readers[sequenceId]?.account ?? '');
      return Uint32Array.of(0);
    },
    async decodeBatch() {
      time += batch.ms;
      batches.push(batch);
      begin();
    },
  } as unknown as AddonContext;
  const batching = createBatching({ lonePromptTokens: 2 * CHUNK, sharedPromptTokens: CHUNK });
  const loop = createDecodeLoop({ context, batching, batchSize: 256, threads: () => 1, now: () => time });
  const ends = Promise.withResolvers<void>();
  let running = 0;

  const step = (sequenceId: number, count: number, computed: () => void, choose?: () => Promise<void>) => {
    const { account: accountId = '', weight = 1 } = readers[sequenceId] ?? {};
    loop.add({
      sequenceId,
      account: loop.accountOf({ accountId, weight, priority: 'interactive' }),
      position: 0,
      tokens: Array<Token>(count).fill(1 as Token),
      logits: [],
      evaluationPriority: sharedBy(sequenceId),
      choose,
      computed,
      failed: ends.reject,
    });
  };
  function read(id: number, { prompt, answer }: Reader, leave: () => void, chunks = 1): void {
    if (chunks < prompt) step(id, CHUNK, () => read(id, { prompt, answer } as Reader, leave, chunks + 1));
    else
      step(
        id,
        CHUNK,
        () => {},
        async () => write(id, answer, leave),
      );
  }
  function write(id: number, left: number, leave: () => void): void {
    if (left > 0)
      step(
        id,
        1,
        () => {},
        async () => write(id, left - 1, leave),
      );
    else {
      leave();
      running -= 1;
      if (running === 0 && later.length === 0) ends.resolve();
    }
  }
  function begin(): void {
    for (const id of [...later]) {
      const reader = readers[id] as Reader;
      if (reader.after > batches.length) continue;
      later.splice(later.indexOf(id), 1);
      running += 1;
      read(id, reader, batching.share());
    }
  }
  begin();
  await ends.promise;
  await loop.close();
  return batches;
}

const timeOf = (batches: readonly Batch[], account: string): number =>
  batches.reduce((sum, { accounts, ms }) => sum + (accounts.has(account) ? ms / accounts.size : 0), 0);

describe('the accounts that share a model', () => {
  it('wait for one chunk of the long prompts of another one at most, and those are read in half of the time', async () => {
    const prompts = fc.array(fc.integer({ min: 20, max: 60 }), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(prompts, fc.integer({ min: 20, max: 60 }), async (heavy, answer) => {
        const batches = await run([
          ...heavy.map((prompt) => ({ account: 'heavy', prompt, answer: 0, after: 0 })),
          { account: 'light', prompt: 2, answer, after: 5 },
        ]);
        const first = batches.findIndex(({ accounts }) => accounts.has('light'));
        const last = batches.findLastIndex(({ accounts }) => accounts.has('light'));
        expect(first).toBeLessThanOrEqual(6);
        const between = batches.slice(first, last + 1);
        const waits = between.map(({ accounts }) => (accounts.has('light') ? 'l' : 'h')).join('');
        expect(waits).not.toContain('hh');
        const chunkMs = BATCH_MS + CHUNK * TOKEN_MS;
        const apart = timeOf(between, 'heavy') - timeOf(between, 'light');
        expect(Math.abs(apart)).toBeLessThanOrEqual(2 * chunkMs);
      }),
      { numRuns: 40 },
    );
  });

  it('share its time by their weights, however many prompts they have', async () => {
    const batches = await run([
      ...Array.from({ length: 6 }, () => ({ account: 'many', prompt: 30, answer: 0, after: 0 })),
      { account: 'heavy', weight: 3, prompt: 90, answer: 0, after: 0 },
    ]);
    const until = batches.findLastIndex(({ accounts }) => accounts.has('heavy'));
    const both = batches.slice(0, until + 1);
    expect(timeOf(both, 'heavy') / timeOf(both, 'many')).toBeCloseTo(3, 0);
  });

  it('leave all of it to one that is alone', async () => {
    const batches = await run([{ account: 'one', prompt: 3, answer: 4, after: 0 }]);
    expect(batches).toHaveLength(7);
  });
});
