import type { BatchItem, EvaluationPriority } from 'node-llama-cpp';

/**
 * llama.cpp chooses kernels by the number of rows in a batch, so logits change with its contents, by up to 0.2. Reproducible prompts
 * therefore run alone in their batch, in chunks of fixed size. Reproducible steps share batches whose shape does not change them, see
 * `steadiness.ts`, or run alone where there is none. Other requests share batches.
 *
 * The library passes the evaluation priority to the batch strategy as it is. Here it says whether work may share a batch, and
 * which sequence it belongs to.
 */
export const ALONE = 0 as EvaluationPriority;
export const sharedBy = (sequenceId: number) => (sequenceId + 1) as EvaluationPriority;
export const steadyBy = (sequenceId: number) => -(sequenceId + 1) as EvaluationPriority;

/** A reproducible step that may share a batch. */
export const isSteadyStep = ({ evaluationPriority, tokens }: Pick<BatchItem, 'evaluationPriority' | 'tokens'>) =>
  evaluationPriority < ALONE && tokens.length === 1;

export const runsAlone = (item: Pick<BatchItem, 'evaluationPriority' | 'tokens'>) =>
  item.evaluationPriority <= ALONE && !isSteadyStep(item);
const sequenceOf = ({ evaluationPriority }: BatchItem) => Math.abs(evaluationPriority) - 1;

/**
 * The next batch is asked for before the last sequence of the previous one has read its token and queued the next step, so
 * that sequence would always miss it. An empty batch makes the library ask again some microtasks later. Limited, because a sequence
 * may also be waiting for a slow reader.
 */
const MAX_EMPTY_BATCHES = 64;

export interface Batching {
  /** The items of the next batch, all tokens of each. */
  strategy<T extends BatchItem>(options: { items: readonly T[]; size: number }): BatchPart<T>[];
  /** Announces a sequence whose work may share batches. Call the result when it ends. */
  share(): () => void;
  /** How many tokens of a prompt to evaluate at once, given what else is running. */
  chunkTokens(): number;
}

export interface BatchPart<T> {
  item: T;
  processAmount: number;
}

export interface BatchingOptions {
  /** Prompt tokens evaluated at once when no other sequence is running. */
  lonePromptTokens: number;
  /** Prompt tokens evaluated at once when other sequences are running. */
  sharedPromptTokens: number;
}

export function createBatching({ lonePromptTokens, sharedPromptTokens }: BatchingOptions): Batching {
  let sharers = 0;
  let waited = 0;
  return {
    /**
     * Oldest first. Each sequence has at most one item queued, so this is round robin. llama.cpp computes in one pass only the same
     * number of tokens of neighbouring sequences in their order. Anything else takes several passes, and all sequences wait for the
     * last one.
     */
    strategy({ items }) {
      const [oldest] = items;
      if (oldest === undefined) return [];
      if (runsAlone(oldest)) return [whole(oldest)];
      const late = items.length < sharers && waited < MAX_EMPTY_BATCHES;
      waited = late ? waited + 1 : 0;
      if (late) return [];
      const alike = items
        .filter((item) => !runsAlone(item) && item.tokens.length === oldest.tokens.length)
        .sort((a, b) => sequenceOf(a) - sequenceOf(b));
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

const whole = <T extends BatchItem>(item: T): BatchPart<T> => ({ item, processAmount: item.tokens.length });

/**
 * The item and those of neighbouring sequences, up to a total of tokens. Few prompts at a time: most clients get their first token
 * far sooner than if all were read at once.
 */
function neighbours<T extends BatchItem>(sorted: readonly T[], item: T, tokens: number): T[] {
  const most = Math.max(1, Math.floor(tokens / item.tokens.length));
  let from = sorted.indexOf(item);
  let to = from + 1;
  const adjoin = (low: number) => {
    const [left, right] = [sorted[low], sorted[low + 1]];
    return left !== undefined && right !== undefined && sequenceOf(left) + 1 === sequenceOf(right);
  };
  while (to - from < most && adjoin(to - 1)) to++;
  while (to - from < most && adjoin(from - 1)) from--;
  return sorted.slice(from, to);
}
