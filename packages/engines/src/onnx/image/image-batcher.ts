import { setImmediate as nextTurn } from 'node:timers/promises';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { ActiveAccounts } from '@baobab/core/runtime/active-accounts.ts';
import { Share } from '@baobab/core/runtime/shares.ts';
import { shareOf } from '@baobab/core/runtime/work.ts';

export interface ImageBatcherOptions {
  /** Images of one run; one while several accounts have some. */
  most: number;
  /** A vector for each image. */
  run(images: readonly Float32Array[]): Promise<readonly Float32Array[]>;
  now?(): number;
}

/** The images of one request. */
export interface ImageWork {
  count: number;
  decode(index: number): Promise<Float32Array>;
  context: Pick<CallContext, 'accountId' | 'priority' | 'weight' | 'signal'>;
  onVector(index: number, vector: Float32Array): void;
}

interface Job extends ImageWork {
  account: Share;
  /** The first image that waits. */
  next: number;
  unfinished: number;
  settle(error?: unknown): void;
}

interface Member {
  job: Job;
  index: number;
}

/** Of the requests of an account, the oldest leads one of this many batches, so that smaller ones cannot hold it up forever. */
const BATCHES_FOR_OLDEST = 4;

export interface ImageBatcher {
  /** Rejects with the failure of the first image that cannot be decoded; the others of the request are dropped. */
  submit(work: ImageWork): Promise<void>;
}

/**
 * Runs the images of all requests in batches: interactive requests first, then those of the account that had the fewest images for its
 * weight, and of its requests the one with the fewest left. An image is decoded when its batch comes, one at a time, so waiting images take
 * the memory of their files only.
 */
export function createImageBatcher({ most, run, now }: ImageBatcherOptions): ImageBatcher {
  /** In the order of their arrival. */
  let jobs: Job[] = [];
  const shares = { present: new Share('work'), batch: new Share('work') };
  const active = new ActiveAccounts(now);
  let batches = 0;
  let running = false;

  function inTurn(): Job[] {
    const byAge = ++batches % BATCHES_FOR_OLDEST === 0;
    const leader = shares.present.members.next() ?? shares.batch.members.next();
    const rank = ({ account, context }: Job) => Number(account !== leader) + (context.priority === 'batch' ? 2 : 0);
    const left = ({ count, next }: Job) => (byAge ? 0 : count - next);
    return jobs.toSorted((one, other) => rank(one) - rank(other) || left(one) - left(other));
  }

  function take(): Member[] {
    const members: Member[] = [];
    const rows = active.areSeveral() ? 1 : most;
    for (const job of inTurn()) {
      while (members.length < rows && job.next < job.count) {
        job.account.serve(1);
        members.push({ job, index: job.next++ });
      }
      if (job.next === job.count) remove(job);
    }
    return members;
  }

  /** All of its images run or have run, or it has failed. */
  function remove(job: Job): void {
    if (!jobs.includes(job)) return;
    jobs = jobs.filter((other) => other !== job);
    job.account.changeWaiting(-1);
  }

  function fail(job: Job, error: unknown): void {
    remove(job);
    job.settle(error);
  }

  /** An image that cannot be decoded fails its own request only. */
  async function decoded(members: readonly Member[]): Promise<{ member: Member; pixels: Float32Array }[]> {
    const ready: { member: Member; pixels: Float32Array }[] = [];
    for (const member of members) {
      const { job, index } = member;
      if (job.unfinished === 0) continue;
      try {
        ready.push({ member, pixels: await job.decode(index) });
      } catch (error) {
        fail(job, error);
      }
    }
    return ready.filter(({ member }) => member.job.unfinished > 0);
  }

  async function runBatch(): Promise<void> {
    const ready = await decoded(take());
    if (ready.length === 0) return;
    try {
      const vectors = await run(ready.map(({ pixels }) => pixels));
      ready.forEach(({ member: { job, index } }, row) => {
        if (job.unfinished === 0) return;
        job.onVector(index, vectors[row] as Float32Array);
        job.unfinished -= 1;
        if (job.unfinished === 0) job.settle();
      });
    } catch (error) {
      for (const { member } of ready) fail(member.job, error);
    }
  }

  async function drain(): Promise<void> {
    // An idle encoder starts at once, with everything submitted in the same tick.
    await undefined;
    while (jobs.length > 0) {
      await runBatch();
      // The runtime blocks the event loop. Let requests in that arrived meanwhile.
      await nextTurn();
    }
    running = false;
  }

  return {
    async submit(work) {
      const { context, count } = work;
      const { signal } = context;
      if (signal.aborted) throw cancellation(signal);
      if (count === 0) return;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => fail(job, cancellation(signal));
      const { name, weight } = shareOf(context);
      const account = (context.priority === 'batch' ? shares.batch : shares.present).members.get(name, weight);
      const job: Job = {
        ...work,
        account,
        next: 0,
        unfinished: count,
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
      active.begin(context);
      if (!running) {
        running = true;
        void drain();
      }
      try {
        await promise;
      } finally {
        active.end(context);
      }
    },
  };
}
