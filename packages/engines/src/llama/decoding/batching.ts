import type { BatchItem, CustomBatchingDispatchSchedule, EvaluationPriority } from 'node-llama-cpp';

/**
 * llama.cpp chooses kernels by the number of rows in a batch, so logits change with its contents, by up to 0.2. Reproducible work
 * therefore runs alone in its batch, in chunks of fixed size. Other requests share batches.
 *
 * The library passes the evaluation priority to the batch strategy as it is. Here it says whether work may share a batch, and
 * which sequence it belongs to.
 */
export const ALONE = 0 as EvaluationPriority;
export const sharedBy = (sequenceId: number) => (sequenceId + 1) as EvaluationPriority;

/**
 * The next batch is asked for before the last sequence of the previous one has read its token and queued the next step, so
 * that sequence would always miss it. An empty batch makes the library ask again some microtasks later. Limited, because a sequence
 * may also be waiting for a slow reader.
 */
const MAX_EMPTY_BATCHES = 64;

export interface Batching {
  /** The items of the next batch, all tokens of each. */
  strategy<T extends BatchItem>(options: { items: readonly T[]; size: number }): BatchPart<T>[];
  /** When a step of the first sequence to ask is started. */
  schedule: CustomBatchingDispatchSchedule;
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
  /** Called before a batch is computed. `alone`: with reproducible work. */
  onBatch(alone: boolean): void;
}

export function createBatching({ lonePromptTokens, sharedPromptTokens, onBatch }: BatchingOptions): Batching {
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
      if (oldest.evaluationPriority === ALONE) {
        onBatch(true);
        return [whole(oldest)];
      }
      const late = items.length < sharers && waited < MAX_EMPTY_BATCHES;
      waited = late ? waited + 1 : 0;
      if (late) return [];
      onBatch(false);
      const alike = items
        .filter((item) => item.evaluationPriority !== ALONE && item.tokens.length === oldest.tokens.length)
        .sort((a, b) => a.evaluationPriority - b.evaluationPriority);
      const isStep = oldest.tokens.length === 1;
      return (isStep ? alike : neighbours(alike, oldest, sharedPromptTokens)).map(whole);
    },
    // The library's default is the next turn of the event loop, so that sequences can gather. The strategy waits for them anyway, and
    // a lone sequence would wait for everything else in this turn, such as sending its last token.
    schedule: (dispatch) => queueMicrotask(dispatch),
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
    return left !== undefined && right !== undefined && left.evaluationPriority + 1 === right.evaluationPriority;
  };
  while (to - from < most && adjoin(to - 1)) to++;
  while (to - from < most && adjoin(from - 1)) from--;
  return sorted.slice(from, to);
}
