/** Longest phrase, in tokens, that is looked for. */
const MAX_PERIOD = 32;
/** A phrase counts as stuck after four times and this many tokens in all: "no, no, no" is still speech. */
const MIN_TIMES = 4;
const MIN_SPAN = 32;

/**
 * Whether the text ends in one phrase said over and over, the way Whisper gets stuck on noise. Timestamps between the
 * repetitions do not hide it. Gives the index in `tokens` at which the first repetition begins, to cut there.
 */
export function repetition(tokens: readonly number[], endOfText: number): number | undefined {
  if (tokens.length < MIN_SPAN || (tokens.at(-1) ?? 0) >= endOfText) return undefined;
  const places = tokens.flatMap((token, place) => (token < endOfText ? [place] : []));
  const at = (index: number) => tokens[places[index] as number];
  const count = places.length;
  for (let period = 1; period <= MAX_PERIOD; period++) {
    const span = Math.max(MIN_SPAN, MIN_TIMES * period);
    if (span > count) continue;
    let same = 0;
    while (same < count - period && at(count - 1 - same) === at(count - 1 - same - period)) same++;
    if (same + period >= span) return places[count - same];
  }
  return undefined;
}
