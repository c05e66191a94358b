import type { BatchItem, CustomBatchingPrioritizationStrategy, EvaluationPriority } from 'node-llama-cpp';

/**
 * What a batch holds changes the floating point results of llama.cpp: kernels are chosen by the number of rows, and logits
 * were seen to move by 0.1. So work whose result must be a pure function of its tokens runs alone in its batch, in chunks of
 * fixed shape; requests that promised nothing may share batches.
 *
 * The library hands the evaluation priority through to the batch strategy untouched. Here it tells whether work may share a
 * batch, and of which sequence it is.
 */
export const ALONE = 0 as EvaluationPriority;
export const sharedBy = (sequenceId: number) => (sequenceId + 1) as EvaluationPriority;

/**
 * The library asks for the next batch before the last sequence of the previous one has read its token and queued the next step,
 * so that sequence would always miss it. An empty answer makes it ask again some microtasks later; this often at most, since a
 * sequence may also be waiting for a slow reader.
 */
const PATIENCE = 64;

export interface Batching {
  strategy: CustomBatchingPrioritizationStrategy;
  /** Tells that a sequence starts with work that may share a batch; the result ends it. */
  share(): () => void;
  /** How many tokens of a prompt that may share a batch should be evaluated at once, as things are now. */
  chunkTokens(): number;
}

export interface BatchingOptions {
  /** Prompt tokens evaluated at once by a sequence that has the model for itself. */
  lonePromptTokens: number;
  /** Prompt tokens evaluated at once when others wait for their turn. */
  sharedPromptTokens: number;
}

export function createBatching({ lonePromptTokens, sharedPromptTokens }: BatchingOptions): Batching {
  let sharers = 0;
  let waited = 0;
  return {
    /**
     * Oldest first; each sequence has one item queued at most, so this is round robin between the sequences. A batch is only as
     * fast as what llama.cpp can compute in one pass: the same number of tokens of each sequence, and neighbouring sequences in
     * their order. Anything else it computes pass by pass, and all wait for the last one.
     */
    strategy({ items }) {
      const [oldest] = items;
      if (oldest === undefined) return [];
      if (oldest.evaluationPriority === ALONE) return [whole(oldest)];
      const late = items.length < sharers && waited < PATIENCE;
      waited = late ? waited + 1 : 0;
      if (late) return [];
      const alike = items
        .filter((item) => item.evaluationPriority !== ALONE && item.tokens.length === oldest.tokens.length)
        .sort((a, b) => a.evaluationPriority - b.evaluationPriority);
      const isStep = oldest.tokens.length === 1;
      return (isStep ? alike : neighbours(alike, oldest, sharedPromptTokens)).map(whole);
    },
    share() {
      sharers++;
      return () => {
        sharers--;
      };
    },
    chunkTokens: () => (sharers > 1 ? sharedPromptTokens : lonePromptTokens),
  };
}

const whole = (item: BatchItem) => ({ item, processAmount: item.tokens.length });

/**
 * The item and those of neighbouring sequences, up to so many tokens in all. Few prompts at a time: read in turns they give most
 * clients their first token far sooner than read all at once.
 */
function neighbours(sorted: readonly BatchItem[], item: BatchItem, tokens: number): BatchItem[] {
  const most = Math.max(1, Math.floor(tokens / item.tokens.length));
  let from = sorted.indexOf(item);
  let to = from + 1;
  const adjoin = (low: number) => {
    const [left, right] = [sorted[low], sorted[low + 1]];
    return left !== undefined && right !== undefined && left.evaluationPriority + 1 === right.evaluationPriority;
  };
  while (to - from < most && adjoin(to - 1)) to++;
  while (to - from < most && adjoin(from - 1)) from--;
  return sorted.slice(from, to);
}
