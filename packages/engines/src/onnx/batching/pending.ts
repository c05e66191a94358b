import type { EncoderSequence } from '../session.ts';

/** The waiting sequences of one request, by length. */
export interface Pending {
  readonly tokens: number;
  longest(): number | undefined;
  /** Waiting lengths in the range, ends included, each repeated for every sequence, at most `most` times. */
  lengths(between: { shortest: number; longest: number }, most: number): number[];
  /** Removes the longest sequence in the range and returns its index. */
  take(shortest: number, longest: number): number | undefined;
}

export function createPending(sequences: readonly EncoderSequence[]): Pending {
  const byLength = new Map<number, number[]>();
  let tokens = 0;
  // From the back, so that each list pops in input order.
  for (let index = sequences.length - 1; index >= 0; index--) {
    const length = sequences[index]?.ids.length ?? 0;
    tokens += length;
    const same = byLength.get(length);
    if (same) same.push(index);
    else byLength.set(length, [index]);
  }
  /** Waiting lengths in rising order. */
  const lengths = [...byLength.keys()].sort((a, b) => a - b);

  return {
    get tokens() {
      return tokens;
    },
    longest: () => lengths.at(-1),
    lengths({ shortest, longest }, most) {
      const found: number[] = [];
      for (let at = lastNotAbove(lengths, longest); at >= 0; at--) {
        const length = lengths[at] as number;
        if (length < shortest) break;
        const count = Math.min(byLength.get(length)?.length ?? 0, most);
        for (let i = 0; i < count; i++) found.push(length);
      }
      return found;
    },
    take(shortest, longest) {
      const at = lastNotAbove(lengths, longest);
      const length = lengths[at];
      if (length === undefined || length < shortest) return undefined;
      const same = byLength.get(length);
      const index = same?.pop();
      if (same?.length === 0) lengths.splice(at, 1);
      tokens -= length;
      return index;
    },
  };
}

function lastNotAbove(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
