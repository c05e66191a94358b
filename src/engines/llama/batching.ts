import type { BatchItem, CustomBatchingPrioritizationStrategy, EvaluationPriority } from 'node-llama-cpp';

/**
 * What a batch holds changes the floating point results of llama.cpp: kernels are chosen by the number of rows, and logits
 * were seen to move by 0.1. So work whose result must be a pure function of its tokens runs alone in its batch, in pieces of
 * fixed shape; only the single-token steps of requests that promised nothing share one.
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
  /** Tells that a sequence starts with single steps that may share a batch; the result ends it. */
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
      if (!mayShare(first)) return [{ item: first, processAmount: Math.min(first.tokens.length, size) }];
      const sharing = items.filter(mayShare).slice(0, size);
      const late = items.length < sharers && waited < PATIENCE;
      waited = late ? waited + 1 : 0;
      return late ? [] : sharing.map((item) => ({ item, processAmount: 1 }));
    },
    share() {
      sharers++;
      return () => {
        sharers--;
      };
    },
  };
}

const mayShare = (item: BatchItem) => item.evaluationPriority === SHARED && item.tokens.length === 1;
