import { setImmediate as nextTurn } from 'node:timers/promises';
import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { Priority } from '../../engine.ts';
import type { Row } from '../pooling.ts';
import type { EncoderBatch, EncoderSequence, EncoderSession } from '../session.ts';
import { chooseWindow, lengthRangeOf, type WindowOptions } from './batch-window.ts';
import { createPending, type Pending } from './pending.ts';

export interface BatcherOptions extends WindowOptions {
  /** Tokens that may wait in all. */
  maxPendingTokens: number;
}

export interface Work {
  sequences: readonly EncoderSequence[];
  signal: AbortSignal;
  priority: Priority;
  /** Called once for each sequence, in no fixed order; the row is only valid during the call. */
  onRow(index: number, row: Row): void;
}

interface Job extends Work {
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

const PRIORITIES: readonly Priority[] = ['interactive', 'batch'];

export interface Batcher {
  submit(work: Work): Promise<void>;
  readonly pendingTokens: number;
}

/**
 * Turns the sequences of all running requests into micro-batches. Nothing is delayed on purpose: an idle session starts at once, a
 * busy one takes everything that arrived meanwhile. Requests take turns to lead a batch. The other sequences have nearly the same
 * length and come from all requests, so a short request never waits for the end of a long one.
 */
export function createBatcher(session: Pick<EncoderSession, 'run'>, options: BatcherOptions): Batcher {
  /** In turn: a request that led a batch moves to the end. */
  let jobs: Job[] = [];
  let pendingTokens = 0;
  let running = false;

  const remove = (job: Job) => {
    jobs = jobs.filter((other) => other !== job);
    pendingTokens -= job.pending.tokens;
  };

  const fail = (job: Job, error: unknown) => {
    if (jobs.includes(job)) remove(job);
    job.settle(error);
  };

  function takeBatch(): Batch | undefined {
    const lead = jobs.find((job) => job.priority === 'interactive') ?? jobs[0];
    const ownLength = lead?.pending.longest();
    if (!lead || ownLength === undefined) return undefined;
    jobs = [...jobs.filter((job) => job !== lead), lead];
    const turns = [lead, ...jobs.filter((job) => job !== lead)];
    const range = lengthRangeOf(ownLength, options);
    const waiting = jobs.flatMap(({ pending }) => pending.lengths(range, options.maxRows)).sort((a, b) => a - b);
    const { shortest, longest, rows } = chooseWindow(ownLength, waiting, options);
    const members: Member[] = [];
    for (const priority of PRIORITIES) {
      let open = turns.filter((job) => job.priority === priority);
      while (open.length > 0 && members.length < rows) {
        open = open.filter((job) => {
          const index = members.length < rows ? job.pending.take(shortest, longest) : undefined;
          if (index === undefined) return false;
          pendingTokens -= sequenceOf({ job, index }).ids.length;
          members.push({ job, index });
          return true;
        });
      }
    }
    jobs = jobs.filter((job) => job.pending.longest() !== undefined);
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
      if (work.signal.aborted) throw cancellation(work.signal);
      if (work.sequences.length === 0) return;
      const pending = createPending(work.sequences);
      if (pendingTokens > 0 && pendingTokens + pending.tokens > options.maxPendingTokens) {
        throw errors.capacityExceeded(1, 'too many tokens are waiting');
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => fail(job, cancellation(work.signal));
      const job: Job = {
        ...work,
        pending,
        unfinished: work.sequences.length,
        settle(error) {
          job.unfinished = 0;
          work.signal.removeEventListener('abort', onAbort);
          if (error === undefined) resolve();
          else reject(error);
        },
      };
      work.signal.addEventListener('abort', onAbort);
      jobs.push(job);
      pendingTokens += pending.tokens;
      if (!running) {
        running = true;
        void drain();
      }
      return promise;
    },
  };
}

function sequenceOf({ job, index }: Member): EncoderSequence {
  return job.sequences[index] as EncoderSequence;
}
