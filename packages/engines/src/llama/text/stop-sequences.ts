/** Where the first of the stop sequences occurs. */
export function firstOccurrence(text: string, stops: readonly string[]): { at: number; sequence: string } | undefined {
  let first: { at: number; sequence: string } | undefined;
  for (const sequence of stops) {
    const at = text.indexOf(sequence);
    if (at !== -1 && (first === undefined || at < first.at)) first = { at, sequence };
  }
  return first;
}

/** Length of the longest end of `text` that could still grow into a stop sequence. */
export function possibleStopSuffix(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
