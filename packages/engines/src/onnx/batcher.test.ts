import type { CallContext } from '@baobab/core/engine/engine.ts';
import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { describe, expect, it } from 'vitest';
import { type BatcherOptions, chooseWindow, createBatcher } from './batcher.ts';
import type { EncoderBatch, EncoderOutput } from './session.ts';

/** A session whose runs end when the test says so. A row's output is its first id. */
function fakeSession() {
  const runs: { batch: EncoderBatch; end(error?: Error): void }[] = [];
  let started = Promise.withResolvers<void>();
  return {
    runs,
    /** The ids that lead each sequence, run by run. */
    seen: () => runs.map(({ batch }) => batch.sequences.map(({ ids }) => ids[0])),
    async started(count: number) {
      while (runs.length < count) await started.promise;
    },
    run(batch: EncoderBatch): Promise<EncoderOutput> {
      const { promise, resolve, reject } = Promise.withResolvers<EncoderOutput>();
      const data = Float32Array.from(batch.sequences, ({ ids }) => ids[0] ?? 0);
      const end = (error?: Error) => (error ? reject(error) : resolve({ data, dims: [data.length, 1] }));
      runs.push({ batch, end });
      started.resolve();
      started = Promise.withResolvers();
      return promise;
    },
  };
}

const OPTIONS: BatcherOptions = { tokenBudget: 32, maxRows: 32, minFill: 0.8, runTokens: 4, maxPendingTokens: 10_000 };

function setUp(options: Partial<BatcherOptions> = {}) {
  const session = fakeSession();
  const batcher = createBatcher(session, { ...OPTIONS, ...options });
  /** Sequences of the given lengths, all beginning with `mark`. */
  const submit = (mark: number, lengths: readonly number[], more: Partial<CallContext> = {}) => {
    const results: (number | undefined)[] = lengths.map(() => undefined);
    const done = batcher.submit({
      sequences: lengths.map((length) => ({ ids: new Int32Array(length).fill(mark) })),
      context: callContext(undefined, more),
      onRow(index, { output, row, tokens }) {
        expect(tokens).toBe(lengths[index]);
        results[index] = output.data[row];
      },
    });
    return { done, results };
  };
  /** Ends every run as it starts, until all the work is done. */
  const finish = async (...works: Promise<unknown>[]) => {
    const all = Promise.allSettled(works);
    for (let ended = 0, open = true; open; ) {
      const next = session.started(ended + 1).then(() => true);
      open = await Promise.race([next, all.then(() => false)]);
      if (open) session.runs[ended++]?.end();
    }
    return all;
  };
  return { session, batcher, submit, finish };
}

describe('the batcher', () => {
  it('starts at once when idle and gathers while it is busy', async () => {
    const { session, submit, finish } = setUp();
    const first = submit(1, [8]);
    await session.started(1);
    const others = [submit(2, [8]), submit(3, [8])];
    await finish(first.done, ...others.map(({ done }) => done));
    expect(session.seen()).toEqual([[1], [2, 3]]);
  });

  it('fills micro-batches up to the token budget with sequences of nearly one length', async () => {
    const { session, submit, finish } = setUp();
    const { done } = submit(1, [4, 16, 8, 15, 4, 7, 4, 30]);
    await finish(done);
    const lengths = session.runs.map(({ batch }) => batch.sequences.map(({ ids }) => ids.length));
    expect(lengths).toEqual([[30], [16, 15], [8, 7], [4, 4, 4]]);
    for (const { batch } of session.runs) expect(batch.length * batch.sequences.length).toBeLessThanOrEqual(32);
  });

  it('runs a sequence longer than the budget alone', async () => {
    const { session, submit, finish } = setUp();
    await finish(submit(1, [100, 100]).done);
    expect(session.runs.map(({ batch }) => batch.sequences.length)).toEqual([1, 1]);
  });

  it('returns every row to its own request and place', async () => {
    const { submit, finish } = setUp();
    const a = submit(7, [4, 8, 8]);
    const b = submit(9, [8, 4]);
    await finish(a.done, b.done);
    expect(a.results).toEqual([7, 7, 7]);
    expect(b.results).toEqual([9, 9]);
  });

  it('does not let a small request wait for the end of a large one', async () => {
    const { session, submit, finish } = setUp();
    const large = submit(1, new Array(400).fill(8));
    await session.started(1);
    const small = submit(2, [5]);
    const same = submit(3, [8]);
    await finish(large.done, small.done, same.done);
    const runOf = (mark: number) => session.seen().findIndex((ids) => ids.includes(mark));
    expect(session.runs.length).toBeGreaterThanOrEqual(100);
    expect(runOf(2)).toBeLessThanOrEqual(3);
    expect(runOf(3)).toBeLessThanOrEqual(3);
  });

  it('ends requests of about one size one after the other', async () => {
    const { session, submit, finish } = setUp();
    const works = [1, 2, 3].map((mark) => submit(mark, new Array(8).fill(8)));
    await finish(...works.map(({ done }) => done));
    expect(session.seen()).toEqual([1, 1, 2, 2, 3, 3].map((mark) => [mark, mark, mark, mark]));
  });

  it('does not let smaller requests hold up a large one forever', async () => {
    const { session, submit, finish } = setUp();
    const large = submit(1, new Array(32).fill(8));
    await session.started(1);
    const works = Array.from({ length: 40 }, () => submit(2, [8, 8, 8, 8]));
    await finish(large.done, ...works.map(({ done }) => done));
    const ofLarge = session.seen().flatMap((ids, run) => (ids.includes(1) ? [run] : []));
    expect(ofLarge.at(-1)).toBeLessThanOrEqual(32);
  });

  it('fills a batch from all requests, also from those behind requests of other lengths', async () => {
    const { session, submit, finish } = setUp();
    const first = submit(1, [8]);
    await session.started(1);
    const works = [8, 30, 31, 29, 28, 8, 8, 8].map((length, index) => submit(index + 2, [length]));
    await finish(first.done, ...works.map(({ done }) => done));
    expect(session.seen()[1]).toEqual([2, 7, 8, 9]);
  });

  it('gives accounts equal work, whatever the size of their requests', async () => {
    const { session, submit, finish } = setUp();
    const heavy = [1, 2, 3].map((mark) => submit(mark, new Array(40).fill(30), { accountId: 'heavy' }));
    await session.started(1);
    const light = submit(4, new Array(40).fill(10), { accountId: 'light' });
    await finish(...heavy.map(({ done }) => done), light.done);
    const runs = session.runs.map(({ batch }) => batch.sequences.map(({ ids }) => ids));
    const lastOfLight = runs.findLastIndex((sequences) => sequences.some((ids) => ids[0] === 4));
    const tokensOf = (isLight: boolean) =>
      runs
        .slice(0, lastOfLight)
        .flat()
        .filter((ids) => (ids[0] === 4) === isLight)
        .reduce((sum, ids) => sum + ids.length, 0);
    expect(Math.abs(tokensOf(true) - tokensOf(false))).toBeLessThanOrEqual(2 * 32);
  });

  it('makes runs short while two accounts have work, and long again a while later', async () => {
    let time = 0;
    const { session, submit, finish } = setUp({ sharedTokenBudget: 8, now: () => time });
    await finish(submit(1, [4, 4, 4, 4, 4, 4, 4, 4], { accountId: 'one' }).done);
    await finish(submit(2, [4], { accountId: 'two' }).done);
    await finish(submit(3, [4, 4, 4, 4], { accountId: 'one' }).done);
    time = 1_001;
    await finish(submit(4, [4, 4, 4, 4], { accountId: 'one' }).done);
    expect(session.seen().map((marks) => marks.length)).toEqual([8, 1, 2, 2, 4]);
  });

  it('counts an account whose last request has just ended, however long it took', async () => {
    let time = 0;
    const { session, submit, finish } = setUp({ sharedTokenBudget: 8, now: () => time });
    const large = submit(1, new Array(16).fill(4), { accountId: 'one' });
    await session.started(1);
    const small = submit(2, [4], { accountId: 'two' });
    time = 5_000;
    await finish(small.done, large.done);
    expect(session.seen().map((marks) => marks.length)).toEqual([8, 2, 2, 2, 2, 1]);
  });

  it('lets interactive requests go before batch work', async () => {
    const { session, submit, finish } = setUp();
    const first = submit(1, [8, 8, 8, 8]);
    await session.started(1);
    const batch = submit(2, [8, 8, 8, 8], { priority: 'batch' });
    const interactive = submit(3, [8, 8, 8]);
    await finish(first.done, batch.done, interactive.done);
    expect(session.seen()[1]).toEqual([3, 3, 3, 2]);
  });

  it('drops the sequences of an aborted request at once', async () => {
    const { session, batcher, submit, finish } = setUp();
    const controller = new AbortController();
    const aborted = submit(1, new Array(100).fill(8), { signal: controller.signal });
    const other = submit(2, [8]);
    await session.started(1);
    controller.abort();
    await expect(aborted.done).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(batcher.pendingTokens).toBeLessThanOrEqual(8);
    await finish(other.done);
    expect(session.runs.length).toBeLessThanOrEqual(2);
    expect(other.results).toEqual([2]);
  });

  it('ends an aborted request with the reason it was aborted for', async () => {
    const { submit } = setUp();
    const signal = AbortSignal.abort(errors.upstreamTimeout('the deadline has passed'));
    await expect(submit(1, [8], { signal }).done).rejects.toMatchObject({ code: 'upstream_timeout' });
  });

  it('fails only the requests of a failed run and continues', async () => {
    const { session, submit, finish } = setUp();
    const failing = submit(1, [8, 8, 8, 8, 8, 8]);
    await session.started(1);
    const later = submit(2, [4]);
    session.runs[0]?.end(new Error('out of memory'));
    await expect(failing.done).rejects.toThrow('out of memory');
    await session.started(2);
    session.runs[1]?.end();
    await finish(later.done);
    expect(later.results).toEqual([2]);
  });

  it('refuses work beyond its memory, but never the only request', async () => {
    const { session, submit, finish } = setUp({ maxPendingTokens: 100 });
    const only = submit(1, new Array(50).fill(8));
    await session.started(1);
    await expect(submit(2, [8]).done).rejects.toMatchObject({ code: 'capacity_exceeded', retryAfterSeconds: 1 });
    await finish(only.done);
    expect(only.results.every((result) => result === 1)).toBe(true);
  });

  it('has nothing to do for no sequences', async () => {
    const { session, submit } = setUp();
    await submit(1, []).done;
    expect(session.runs).toEqual([]);
  });
});

const WINDOW = { tokenBudget: 256, maxRows: 256, minFill: 0.85, runTokens: 8 };
const choose = (lead: number, waiting: number[], more = {}) =>
  chooseWindow(
    lead,
    waiting.toSorted((a, b) => a - b),
    { ...WINDOW, ...more },
  );

describe('chooseWindow', () => {
  it('takes a sequence alone when there is nothing near its length', () => {
    expect(choose(50, [10, 50, 90])).toEqual({ shortest: 50, longest: 50, rows: 1 });
  });

  it('fills the budget where lengths are equal', () => {
    expect(choose(50, new Array(9).fill(50))).toEqual({ shortest: 50, longest: 50, rows: 5 });
  });

  it('pads a sequence to a longer one when that saves a run', () => {
    expect(choose(50, [50, 51, 52, 52])).toEqual({ shortest: 50, longest: 52, rows: 4 });
  });

  it('leaves out sequences whose padding costs more than a run', () => {
    expect(choose(60, [52, 60, 60, 60])).toEqual({ shortest: 60, longest: 60, rows: 3 });
    expect(choose(60, [52, 60, 60, 60], { runTokens: 40 })).toEqual({ shortest: 52, longest: 60, rows: 4 });
  });

  it('always contains the leading sequence', () => {
    const { shortest, longest } = choose(50, [50, 55, 55, 55, 55, 55, 55]);
    expect(shortest).toBeLessThanOrEqual(50);
    expect(longest).toBeGreaterThanOrEqual(50);
  });

  it('never goes over the budget or the rows', () => {
    const waiting = Array.from({ length: 300 }, (_, index) => 10 + (index % 80));
    for (const lead of [10, 40, 89]) {
      const { longest, rows } = choose(lead, waiting, { maxRows: 4 });
      expect(rows).toBeLessThanOrEqual(4);
      expect(longest * rows).toBeLessThanOrEqual(256);
    }
  });
});
