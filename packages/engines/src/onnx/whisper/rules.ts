import type { Vocabulary } from './vocabulary.ts';

const NEVER = Number.NEGATIVE_INFINITY;

/** The first timestamp is within the first second; tokens are 20 ms apart. */
const MAX_INITIAL_TIMESTAMP = 50;

/**
 * Which tokens may follow, as in OpenAI's reference decoder: no special tokens, timestamps in pairs that never go back, the
 * first token a timestamp, and a timestamp wherever timestamps together are likelier than any single word.
 * Changes the logits in place.
 */
export function createRules(vocabulary: Vocabulary, suppressed: readonly number[]) {
  const { endOfText, timestampBegin } = vocabulary;
  const never = [
    ...suppressed.filter((token) => token >= 0 && token < endOfText),
    ...Array.from({ length: timestampBegin - endOfText - 1 }, (_, i) => endOfText + 1 + i),
  ];

  return function apply(logits: Float32Array, sampled: readonly number[]): void {
    for (const token of never) logits[token] = NEVER;

    const last = sampled.at(-1);
    if (last === undefined) {
      logits.fill(NEVER, 0, timestampBegin);
      logits.fill(NEVER, timestampBegin + MAX_INITIAL_TIMESTAMP + 1);
      return;
    }
    const afterStart = last >= timestampBegin && (sampled.at(-2) ?? timestampBegin) >= timestampBegin;
    const afterEnd = last >= timestampBegin && !afterStart;
    if (afterStart) logits.fill(NEVER, timestampBegin);
    if (afterEnd) logits.fill(NEVER, 0, endOfText);

    const latest = sampled.findLast((token) => token >= timestampBegin);
    // A segment has a length above zero, so its end is later than its start; the next start may equal the last end.
    if (latest !== undefined) logits.fill(NEVER, timestampBegin, afterEnd ? latest : latest + 1);

    if (logSumExp(logits, timestampBegin, logits.length) > maximum(logits, 0, timestampBegin)) {
      logits.fill(NEVER, 0, timestampBegin);
    }
  };
}

export function maximum(values: Float32Array, from: number, to: number): number {
  let best = NEVER;
  for (let i = from; i < to; i++) if ((values[i] as number) > best) best = values[i] as number;
  return best;
}

export function logSumExp(values: Float32Array, from = 0, to = values.length): number {
  const best = maximum(values, from, to);
  if (best === NEVER) return NEVER;
  let sum = 0;
  for (let i = from; i < to; i++) {
    const difference = (values[i] as number) - best;
    if (difference > -30) sum += Math.exp(difference);
  }
  return best + Math.log(sum);
}

/** The likeliest token at temperature 0, else one drawn from the tempered distribution. */
export function pick(logits: Float32Array, temperature: number, random: () => number): number {
  if (temperature === 0) {
    let best = 0;
    for (let i = 1; i < logits.length; i++) if ((logits[i] as number) > (logits[best] as number)) best = i;
    return best;
  }
  const tempered = logits.map((logit) => logit / temperature);
  const total = logSumExp(tempered);
  let left = random();
  let chosen = 0;
  for (let i = 0; i < tempered.length; i++) {
    if (tempered[i] === NEVER) continue;
    chosen = i;
    left -= Math.exp((tempered[i] as number) - total);
    if (left <= 0) break;
  }
  return chosen;
}
