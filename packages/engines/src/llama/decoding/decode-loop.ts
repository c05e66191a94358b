import { Share } from '@baobab/core/runtime/shares.ts';
import { type Sharing, shareOf } from '@baobab/core/runtime/work.ts';
import type { BatchItem } from 'node-llama-cpp';
import type { AddonContext } from './addon.ts';
import type { Batching } from './batching.ts';

/** Tokens of one sequence to compute in one batch, and to choose the next one from. */
export interface Step extends BatchItem {
  readonly sequenceId: number;
  readonly account: Share;
  /** Position of its first token in the sequence. */
  readonly position: number;
  /** Which of the tokens need logits. Default: the last one, if a token is chosen. */
  readonly outputs?: readonly number[] | undefined;
  /** Uses the logits, by their indices, and is settled when that is done. */
  readonly choose?: ((logits: Uint32Array) => Promise<void>) | undefined;
  /** The tokens are in the cache. Called before `choose`. */
  computed(): void;
  failed(error: unknown): void;
}

/** A row of a sequence that has nothing to compute. It is there for the shape of its batch, and forgotten afterwards. */
export interface IdleRow {
  readonly sequenceId: number;
  readonly position: number;
}

export interface DecodeLoop {
  /** The share of the model that the steps of a caller take. */
  accountOf(caller: Sharing): Share;
  add(step: Step): void;
  /** False when it is computed already. */
  remove(step: Step): boolean;
  /** Runs between two batches. */
  between<T>(task: () => T): Promise<T>;
  /** Runs when the next batch has started, or there is none. */
  afterStart(task: () => void): void;
  /** Fails what waits and lets a running batch end. */
  close(): Promise<void>;
  /** Throws once it is closed: the native objects may be gone. */
  ensureOpen(): void;
}

export interface DecodeLoopOptions {
  /** It may be replaced while `makeRoom` runs. */
  readonly context: AddonContext;
  batching: Pick<Batching, 'strategy'>;
  batchSize: number;
  /** Threads for a batch. */
  threads(steps: readonly Step[]): number;
  /** Called before a batch. If it fails, so do the steps that have no room. */
  makeRoom?(steps: readonly Step[]): Promise<void> | undefined;
  hasRoom?(step: Step): boolean;
  /** What is added to a batch. */
  fill?(steps: readonly Step[]): readonly IdleRow[];
  now?(): number;
}

/**
 * Drives the native context of node-llama-cpp: computes steps in batches and has a token chosen for each. The library does the same behind
 * locks, guards and timers, which take longer than all else between two tokens of one sequence.
 *
 * The account that the model has worked for least, for its weight, leads the next batch with its oldest step. The steps of others are
 * computed with it where they fit. So a chunk of a long prompt is the most that another account waits for, however many prompts there are.
 */
export function createDecodeLoop(options: DecodeLoopOptions): DecodeLoop {
  const { batching, batchSize, threads, makeRoom, hasRoom = () => false, fill = () => [] } = options;
  const { now = () => performance.now() } = options;
  /** Oldest first. */
  const queue: Step[] = [];
  const accounts = new Share('work').members;
  const tasks: (() => void)[] = [];
  const held: (() => void)[] = [];
  let running: Promise<void> | undefined;
  let closed = false;

  function start(steps: readonly Step[], idle: readonly IdleRow[]): { logits: Uint32Array[]; decoded: Promise<void> } {
    const { context } = options;
    context.initBatch(steps.reduce((sum, step) => sum + step.tokens.length, idle.length));
    const logits = new Map<Step, Uint32Array>();
    for (const row of inOrder(steps, idle)) {
      if (!('tokens' in row)) {
        // With logits: rows without them are left out of the last layer, which would change its shape.
        context.addToBatch(row.sequenceId, row.position, IDLE_TOKENS, FIRST);
        continue;
      }
      const { sequenceId, position, tokens, choose, outputs } = row;
      const wanted = Uint32Array.from(outputs ?? (choose === undefined ? [] : [tokens.length - 1]));
      logits.set(row, context.addToBatch(sequenceId, position, Uint32Array.from(tokens), wanted));
    }
    context.setThreads(threads(steps));
    return { logits: steps.map((step) => logits.get(step) ?? new Uint32Array()), decoded: context.decodeBatch() };
  }

  async function compute(taken: readonly Step[]): Promise<void> {
    let steps = taken;
    let logits: Uint32Array[];
    try {
      const growth = makeRoom?.(steps);
      if (growth !== undefined) {
        await growth.catch((error: unknown) => {
          steps = taken.filter(hasRoom);
          const tooLong = taken.filter((step) => !hasRoom(step));
          fail(tooLong, error);
        });
        if (steps.length === 0) return;
      }
      const began = now();
      const idle = fill(steps);
      const batch = start(steps, idle);
      logits = batch.logits;
      release(held);
      await batch.decoded.finally(() => {
        for (const { sequenceId, position } of idle)
          options.context.removeTokenCellsFromSequence(sequenceId, position, -1);
        count(steps, now() - began);
      });
    } catch (error) {
      fail(steps, error);
      return;
    }
    for (const step of steps) step.computed();
    // The logits are overwritten by the next batch.
    await Promise.all(steps.map((step, at) => step.choose?.(logits[at] ?? new Uint32Array())));
  }

  function count(steps: readonly Step[], ms: number): void {
    const tokens = steps.reduce((sum, step) => sum + step.tokens.length, 0);
    for (const step of steps) step.account.serve((ms * step.tokens.length) / tokens);
  }

  function leave(step: Step): boolean {
    const at = queue.indexOf(step);
    if (at === -1) return false;
    queue.splice(at, 1);
    step.account.changeWaiting(-1);
    return true;
  }

  function failAll(error: unknown): void {
    const steps = [...queue];
    steps.forEach(leave);
    fail(steps, error);
  }

  function inTurn(): readonly Step[] {
    const leader = accounts.next();
    const first = queue.find(({ account }) => account === leader);
    return first === undefined || first === queue[0] ? queue : [first, ...queue.filter((step) => step !== first)];
  }

  /** Takes the steps of the next batch from the queue. */
  function take(): Step[] {
    try {
      const steps = batching.strategy({ items: inTurn(), size: batchSize }).map(({ item }) => item);
      steps.forEach(leave);
      return steps;
    } catch (error) {
      failAll(error);
      return [];
    }
  }

  async function run(): Promise<void> {
    // What is asked for in the same turn goes into the same batch.
    await undefined;
    while (queue.length + tasks.length > 0) {
      release(tasks);
      if (closed) failAll(unloading());
      const steps = take();
      if (steps.length > 0) await compute(steps);
      else await undefined;
    }
    running = undefined;
    release(held);
  }

  function wake(): void {
    running ??= run();
  }

  return {
    accountOf(caller) {
      const { name, weight } = shareOf(caller);
      return accounts.get(name, weight);
    },
    add(step) {
      queue.push(step);
      step.account.changeWaiting(1);
      wake();
    },
    remove: leave,
    between: (task) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(unloading());
        tasks.push(() => {
          try {
            resolve(task());
          } catch (error) {
            reject(error);
          }
        });
        wake();
      }),
    afterStart: (task) => void held.push(task),
    async close() {
      closed = true;
      await running;
    },
    ensureOpen() {
      if (closed) throw unloading();
    },
  };
}

const IDLE_TOKENS = Uint32Array.of(0);
const FIRST = Uint32Array.of(0);

/** llama.cpp computes neighbouring sequences in one pass, in their order. */
const inOrder = (steps: readonly Step[], idle: readonly IdleRow[]): readonly (Step | IdleRow)[] =>
  idle.length === 0 ? steps : [...steps, ...idle].sort((a, b) => a.sequenceId - b.sequenceId);

function fail(steps: readonly Step[], error: unknown): void {
  for (const step of steps) step.failed(error);
}

function release(tasks: (() => void)[]): void {
  if (tasks.length > 0) for (const task of tasks.splice(0)) task();
}

const unloading = () => new Error('The model is being unloaded');
