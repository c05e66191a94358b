export interface WindowOptions {
  /** A micro-batch holds about so many tokens, padding included. */
  tokenBudget: number;
  /** Sequences in one micro-batch. */
  maxRows: number;
  /** Sequences shorter than this share of the longest one wait for company of their own length. */
  minFill: number;
  /** What a run costs besides its tokens, as tokens. */
  runTokens: number;
}

/** Which lengths go together into a micro-batch. */
export interface BatchWindow {
  shortest: number;
  longest: number;
  rows: number;
}

/** Lengths that may share a batch with a sequence of this one. */
export function companyOf(length: number, { minFill }: WindowOptions): { shortest: number; longest: number } {
  return { shortest: Math.ceil(length * minFill), longest: Math.floor(length / minFill) };
}

/**
 * The batch around a sequence of length `lead` that does most real tokens for its cost: company saves runs, unequal company is
 * padding. `waiting` are the lengths at hand, rising; `lead` is one of them.
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
