import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { ActiveAccounts } from '@baobab/core/runtime/active-accounts.ts';
import { RequestOrder, Share } from '@baobab/core/runtime/shares.ts';
import { shareOf } from '@baobab/core/runtime/work.ts';
import type { Row } from './pooling.ts';
import type { EncoderBatch, EncoderSequence, EncoderSession } from './session.ts';

export interface BatcherOptions extends WindowOptions {
  /** Tokens that may wait in all. */
  maxPendingTokens: number;
  /** The token budget while several accounts have work; the same by default. */
  sharedTokenBudget?: number;
  now?(): number;
}

export interface Work {
  sequences: readonly EncoderSequence[];
  context: Pick<CallContext, 'accountId' | 'priority' | 'weight' | 'signal'>;
  /** Called once for each sequence, in no fixed order; the row is only valid during the call. */
  onRow(index: number, row: Row): void;
}

interface Job extends Work {
  account: Share;
  pending: Pending;
  unfinished: number;
  settle(error?: unknown): void;
}

interface Member {
  job: Job;
  index: number;
}

interface Batch {
  batch: EncoderBatch;
  members: Member[];
}

export interface Batcher {
  submit(work: Work): Promise<void>;
  readonly pendingTokens: number;
}

/**
 * Turns the sequences of all running requests into micro-batches. Nothing is delayed on purpose: an idle session starts at once, a
 * busy one takes everything that arrived meanwhile. A batch is led by the account that was given the least work for its weight, and of its
 * requests by the next one in their order. The other sequences have nearly the same length and come from all requests. While several
 * accounts have work, batches are small, so that each waits for a short run only.
 */
export function createBatcher(session: Pick<EncoderSession, 'run'>, options: BatcherOptions): Batcher {
  /** In the order of their arrival. */
  let jobs: Job[] = [];
  const shares = { present: new Share('work'), batch: new Share('work') };
  const laneOf = ({ priority }: Work['context']) => (priority === 'batch' ? shares.batch : shares.present);
  const active = new ActiveAccounts(options.now);
  const order = new RequestOrder();
  let pendingTokens = 0;
  let running = false;

  const remove = (job: Job) => {
    jobs = jobs.filter((other) => other !== job);
    job.account.changeWaiting(-1);
    pendingTokens -= job.pending.tokens;
  };

  const fail = (job: Job, error: unknown) => {
    if (jobs.includes(job)) remove(job);
    job.settle(error);
  };

  /** Those that go first. */
  function inTurn(): Job[] {
    const leader = shares.present.members.next() ?? shares.batch.members.next();
    const turns = jobs.map((job) => ({
      job,
      rank: (job.account === leader ? 0 : 1) + (job.context.priority === 'batch' ? 2 : 0),
      size: order.rank(job.pending.tokens),
    }));
    order.endTurn();
    return turns.sort((left, right) => left.rank - right.rank || left.size - right.size).map(({ job }) => job);
  }

  function takeBatch(): Batch | undefined {
    const turns = inTurn();
    const ownLength = turns[0]?.pending.longest();
    if (ownLength === undefined) return undefined;
    const { tokenBudget, sharedTokenBudget = tokenBudget } = options;
    const bounds = { ...options, tokenBudget: active.areSeveral() ? sharedTokenBudget : tokenBudget };
    const range = lengthRangeOf(ownLength, bounds);
    const waiting = jobs.flatMap(({ pending }) => pending.lengths(range, bounds.maxRows)).sort((a, b) => a - b);
    const { shortest, longest, rows } = chooseWindow(ownLength, waiting, bounds);
    const members: Member[] = [];
    for (const job of turns) {
      while (members.length < rows) {
        const index = job.pending.take(shortest, longest);
        if (index === undefined) break;
        const tokens = sequenceOf({ job, index }).ids.length;
        pendingTokens -= tokens;
        job.account.serve(tokens);
        members.push({ job, index });
      }
    }
    jobs = jobs.filter((job) => {
      const waits = job.pending.longest() !== undefined;
      if (!waits) job.account.changeWaiting(-1);
      return waits;
    });
    const sequences = members.map(sequenceOf);
    return { batch: { sequences, length: Math.max(...sequences.map(({ ids }) => ids.length)) }, members };
  }

  async function runBatch({ batch, members }: Batch): Promise<void> {
    try {
      const output = await session.run(batch);
      members.forEach(({ job, index }, row) => {
        if (job.unfinished === 0) return;
        job.onRow(index, { output, row, tokens: sequenceOf({ job, index }).ids.length });
        job.unfinished--;
        if (job.unfinished === 0) job.settle();
      });
    } catch (error) {
      for (const { job } of members) fail(job, error);
    }
  }

  async function drain() {
    // An idle session starts at once, with everything submitted in the same tick.
    await undefined;
    while (jobs.length > 0) {
      const taken = takeBatch();
      if (taken) await runBatch(taken);
      // The runtime blocks the event loop. Let requests in that arrived meanwhile.
      await nextTurn();
    }
    running = false;
  }

  return {
    get pendingTokens() {
      return pendingTokens;
    },
    async submit(work) {
      const { signal } = work.context;
      if (signal.aborted) throw cancellation(signal);
      if (work.sequences.length === 0) return;
      const pending = createPending(work.sequences);
      if (pendingTokens > 0 && pendingTokens + pending.tokens > options.maxPendingTokens) {
        throw errors.capacityExceeded(1, 'too many tokens are waiting');
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => fail(job, cancellation(signal));
      const { name, weight } = shareOf(work.context);
      const account = laneOf(work.context).members.get(name, weight);
      const job: Job = {
        ...work,
        account,
        pending,
        unfinished: work.sequences.length,
        settle(error) {
          job.unfinished = 0;
          signal.removeEventListener('abort', onAbort);
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      signal.addEventListener('abort', onAbort);
      jobs.push(job);
      account.changeWaiting(1);
      active.begin(work.context);
      pendingTokens += pending.tokens;
      if (!running) {
        running = true;
        void drain();
      }
      try {
        await promise;
      } finally {
        active.end(work.context);
      }
    },
  };
}

function sequenceOf({ job, index }: Member): EncoderSequence {
  return job.sequences[index] as EncoderSequence;
}

/** The waiting sequences of one request, by length. */
interface Pending {
  readonly tokens: number;
  longest(): number | undefined;
  /** Waiting lengths in the range, ends included, each repeated for every sequence, at most `most` times. */
  lengths(between: { shortest: number; longest: number }, most: number): number[];
  /** Removes the longest sequence in the range and returns its index. */
  take(shortest: number, longest: number): number | undefined;
}

function createPending(sequences: readonly EncoderSequence[]): Pending {
  const byLength = new Map<number, number[]>();
  let tokens = 0;
  // From the back, so that each list pops in input order.
  for (let index = sequences.length - 1; index >= 0; index--) {
    const length = sequences[index]?.ids.length ?? 0;
    tokens += length;
    const same = byLength.get(length);
    if (same) same.push(index);
    else byLength.set(length, [index]);
  }
  /** Waiting lengths in rising order. */
  const lengths = [...byLength.keys()].sort((a, b) => a - b);

  return {
    get tokens() {
      return tokens;
    },
    longest: () => lengths.at(-1),
    lengths({ shortest, longest }, most) {
      const found: number[] = [];
      for (let at = lastNotAbove(lengths, longest); at >= 0; at--) {
        const length = lengths[at] as number;
        if (length < shortest) break;
        const count = Math.min(byLength.get(length)?.length ?? 0, most);
        for (let i = 0; i < count; i++) found.push(length);
      }
      return found;
    },
    take(shortest, longest) {
      const at = lastNotAbove(lengths, longest);
      const length = lengths[at];
      if (length === undefined || length < shortest) return undefined;
      const same = byLength.get(length);
      const index = same?.pop();
      if (same?.length === 0) lengths.splice(at, 1);
      tokens -= length;
      return index;
    },
  };
}

function lastNotAbove(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

interface WindowOptions {
  /** Tokens in a micro-batch, about, padding included. */
  tokenBudget: number;
  /** Sequences in one micro-batch. */
  maxRows: number;
  /** A batch takes no sequences shorter than this share of its longest one. */
  minFill: number;
  /** The fixed cost of a run, in tokens. */
  runTokens: number;
}

/** Which lengths go together into a micro-batch. */
interface BatchWindow {
  shortest: number;
  longest: number;
  rows: number;
}

/** Lengths that may share a batch with a sequence of this one. */
function lengthRangeOf(length: number, { minFill }: WindowOptions): { shortest: number; longest: number } {
  return { shortest: Math.ceil(length * minFill), longest: Math.floor(length / minFill) };
}

/**
 * Chooses the batch with the most real tokens for its cost that contains a sequence of length `lead`. Larger batches save runs, unequal
 * lengths cost padding. `waiting`: the waiting lengths in rising order, including `lead`.
 */
export function chooseWindow(lead: number, waiting: readonly number[], options: WindowOptions): BatchWindow {
  const { tokenBudget, maxRows, minFill, runTokens } = options;
  let best: BatchWindow = { shortest: lead, longest: lead, rows: 1 };
  let bestYield = 0;
  for (let last = waiting.lastIndexOf(lead); last < waiting.length; last++) {
    const longest = waiting[last] as number;
    const rows = Math.min(maxRows, Math.max(1, Math.floor(tokenBudget / longest)), last + 1);
    let tokens = 0;
    for (let taken = 1; taken <= rows; taken++) {
      const shortest = waiting[last + 1 - taken] as number;
      if (shortest < longest * minFill) break;
      tokens += shortest;
      const gain = tokens / (taken * longest + runTokens);
      if (shortest > lead || gain <= bestYield) continue;
      bestYield = gain;
      best = { shortest, longest, rows: taken };
    }
  }
  return best;
}
