export interface WindowOptions {
  /** Tokens in a micro-batch, about, padding included. */
  tokenBudget: number;
  /** Sequences in one micro-batch. */
  maxRows: number;
  /** A batch takes no sequences shorter than this share of its longest one. */
  minFill: number;
  /** The fixed cost of a run, in tokens. */
  runTokens: number;
}

/** Which lengths go together into a micro-batch. */
export interface BatchWindow {
  shortest: number;
  longest: number;
  rows: number;
}

/** Lengths that may share a batch with a sequence of this one. */
export function lengthRangeOf(length: number, { minFill }: WindowOptions): { shortest: number; longest: number } {
  return { shortest: Math.ceil(length * minFill), longest: Math.floor(length / minFill) };
}

/**
 * Chooses the batch with the most real tokens for its cost that contains a sequence of length `lead`. Larger batches save runs, unequal
 * lengths cost padding. `waiting`: the waiting lengths in rising order, including `lead`.
 */
export function chooseWindow(lead: number, waiting: readonly number[], options: WindowOptions): BatchWindow {
  const { tokenBudget, maxRows, minFill, runTokens } = options;
  let best: BatchWindow = { shortest: lead, longest: lead, rows: 1 };
  let bestYield = 0;
  for (let last = waiting.lastIndexOf(lead); last < waiting.length; last++) {
    const longest = waiting[last] as number;
    const rows = Math.min(maxRows, Math.max(1, Math.floor(tokenBudget / longest)), last + 1);
    let tokens = 0;
    for (let taken = 1; taken <= rows; taken++) {
      const shortest = waiting[last + 1 - taken] as number;
      if (shortest < longest * minFill) break;
      tokens += shortest;
      const gain = tokens / (taken * longest + runTokens);
      if (shortest > lead || gain <= bestYield) continue;
      bestYield = gain;
      best = { shortest, longest, rows: taken };
    }
  }
  return best;
}
