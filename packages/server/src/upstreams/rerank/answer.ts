import { countOf } from '../answer-fields.ts';
import type { JsonAnswer } from '../dialects/dialect.ts';
import type { Learned } from '../routing/upstream.ts';

export interface Ranked {
  scores: number[];
  /** Undefined if the upstream does not report them. */
  tokens: number | undefined;
}

/** TEI: `[{index, score}]`. The others: `{results: [{index, relevance_score}], usage}`. Undefined if a document has no score. */
export function readRanking({ json, headers }: JsonAnswer, count: number, learned: Learned): Ranked | undefined {
  const { results, usage }: { results?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } | null } =
    typeof json === 'object' && json !== null ? json : {};
  const ranks: unknown = Array.isArray(json) ? json : results;
  if (!Array.isArray(ranks)) return undefined;
  const scores = new Array<number>(count).fill(Number.NaN);
  for (const rank of ranks) {
    const {
      index,
      score,
      relevance_score = score,
    }: { index?: unknown; score?: unknown; relevance_score?: unknown } = rank ?? {};
    if (typeof index === 'number' && index < count && typeof relevance_score === 'number')
      scores[index] = relevance_score;
  }
  if (scores.some(Number.isNaN)) return undefined;
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens ?? Number(headers['x-compute-tokens']);
  return { scores: probabilities(scores, learned), tokens: countOf(tokens) };
}

/** Turns logits into probabilities. An upstream that once gave a score outside 0–1 gives logits. */
function probabilities(scores: number[], learned: Learned): number[] {
  learned.givesRawScores ||= scores.some((score) => score < 0 || score > 1);
  return learned.givesRawScores ? scores.map((score) => 1 / (1 + Math.exp(-score))) : scores;
}
