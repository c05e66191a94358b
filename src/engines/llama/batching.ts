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

/** Oldest first; each sequence has one item queued at most, so this is round robin between the sequences. */
export const batchStrategy: CustomBatchingPrioritizationStrategy = ({ items, size }) => {
  const [first] = items;
  if (first === undefined) return [];
  if (!mayShare(first)) return [{ item: first, processAmount: Math.min(first.tokens.length, size) }];
  return items
    .filter(mayShare)
    .slice(0, size)
    .map((item) => ({ item, processAmount: 1 }));
};

const mayShare = (item: BatchItem) => item.evaluationPriority === SHARED && item.tokens.length === 1;
