import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Priority } from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';

export interface ImageBatcherOptions {
  /** Images of one run. */
  most: number;
  /** A vector for each image. */
  run(images: readonly Float32Array[]): Promise<readonly Float32Array[]>;
}

/** The images of one request. */
export interface ImageWork {
  count: number;
  decode(index: number): Promise<Float32Array>;
  signal: AbortSignal;
  priority: Priority;
  onVector(index: number, vector: Float32Array): void;
}

interface Job extends ImageWork {
  /** The first image that waits. */
  next: number;
  unfinished: number;
  settle(error?: unknown): void;
}

interface Member {
  job: Job;
  index: number;
}

/** The oldest request leads one of this many batches, so that smaller ones cannot hold it up forever. */
const BATCHES_FOR_OLDEST = 4;

export interface ImageBatcher {
  /** Rejects with the failure of the first image that cannot be decoded; the others of the request are dropped. */
  submit(work: ImageWork): Promise<void>;
}

/**
 * Runs the images of all requests in batches: interactive requests first, then those with the fewest images left. An image is decoded when
 * its batch comes, one at a time, so waiting images take the memory of their files only.
 */
export function createImageBatcher({ most, run }: ImageBatcherOptions): ImageBatcher {
  /** In the order of their arrival. */
  let jobs: Job[] = [];
  let batches = 0;
  let running = false;

  function inTurn(): Job[] {
    const byAge = ++batches % BATCHES_FOR_OLDEST === 0;
    const isBatch = ({ priority }: Job) => Number(priority === 'batch');
    const left = ({ count, next }: Job) => (byAge ? 0 : count - next);
    return jobs.toSorted((one, other) => isBatch(one) - isBatch(other) || left(one) - left(other));
  }

  function take(): Member[] {
    const members: Member[] = [];
    for (const job of inTurn()) {
      while (members.length < most && job.next < job.count) members.push({ job, index: job.next++ });
    }
    jobs = jobs.filter(({ next, count }) => next < count);
    return members;
  }

  function fail(job: Job, error: unknown): void {
    jobs = jobs.filter((other) => other !== job);
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
      const { signal, count } = work;
      if (signal.aborted) throw cancellation(signal);
      if (count === 0) return;
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => fail(job, cancellation(signal));
      const job: Job = {
        ...work,
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
      if (!running) {
        running = true;
        void drain();
      }
      return promise;
    },
  };
}
