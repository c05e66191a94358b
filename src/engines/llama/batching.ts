import type { BatchItem, CustomBatchingPrioritizationStrategy, EvaluationPriority } from 'node-llama-cpp';

/**
 * What a batch holds changes the floating point results of llama.cpp: kernels are chosen by the number of rows, and logits
 * were seen to move by 0.1. So work whose result must be a pure function of its tokens runs alone in its batch, in pieces of
 * fixed shape; only the steps of requests that promised nothing share one, with what is left of their prompts after the last
 * whole piece.
 *
 * The library hands the evaluation priority through to the batch strategy untouched; it carries the one bit needed here.
 */
export const ALONE: EvaluationPriority = 1;
export const SHARED: EvaluationPriority = 5;

/**
 * The library asks for the next batch before the last sequence of the previous one has read its token and queued the next step,
 * so that sequence would always miss it. An empty answer makes it ask again some microtasks later; this often at most, since a
 * sequence may also be waiting for a slow reader.
 */
const PATIENCE = 64;

export interface Batching {
  strategy: CustomBatchingPrioritizationStrategy;
  /** Tells that a sequence starts with steps that may share a batch; the result ends it. */
  share(): () => void;
}

export function createBatching(): Batching {
  let sharers = 0;
  let waited = 0;
  return {
    /** Oldest first; each sequence has one item queued at most, so this is round robin between the sequences. */
    strategy({ items, size }) {
      const [first] = items;
      if (first === undefined) return [];
      if (first.evaluationPriority !== SHARED) return [whole(first)];
      const late = items.length < sharers && waited < PATIENCE;
      waited = late ? waited + 1 : 0;
      return late
        ? []
        : fitting(
            items.filter((item) => item.evaluationPriority === SHARED),
            size,
          ).map(whole);
    },
    share() {
      sharers++;
      return () => {
        sharers--;
      };
    },
  };
}

const whole = (item: BatchItem) => ({ item, processAmount: item.tokens.length });

/** As many items as fit, none of them cut. */
function fitting(items: readonly BatchItem[], size: number): BatchItem[] {
  let room = size;
  return items.filter((item) => {
    if (item.tokens.length > room) return false;
    room -= item.tokens.length;
    return true;
  });
}
