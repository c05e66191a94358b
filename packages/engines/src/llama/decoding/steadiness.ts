import type { Token } from 'node-llama-cpp';
import { ALONE, isSteadyStep, runsAlone, steadyBy } from './batching.ts';
import type { Step } from './decode-loop.ts';
import type { Sequence, TokenScore } from './sequence.ts';

/**
 * What keeps the results of a request with a `seed` or temperature 0 equal to the last bit, whatever else runs:
 * - `none`: nothing. It shares batches as any other request does.
 * - `together`: its prompt runs alone, its steps share batches of a shape that does not change them.
 * - `alone`: its steps run alone too.
 *
 * On processors the row of a step is computed by itself, beside any others. On GPUs it depends on the number of rows and on the longest
 * context in the batch, so both are kept the same (`idleRows`), and on its place in the batch unless keys and values have 8 bits.
 */
export type Steadiness = 'none' | 'together' | 'alone';

const PROMPT_TOKENS = 24;
const TOP = 8;

/** Compares the bits of a step alone with those beside others and in another sequence. */
export async function measureSteadiness(sequences: readonly Sequence[]): Promise<Steadiness> {
  const [first, second, last] = [sequences[0], sequences[1], sequences.at(-1)];
  if (first === undefined || second === undefined || last === undefined) return 'together';
  if (first.isForwardOnly) return 'alone';
  const [prompt, other] = [tokens(3), tokens(7)];
  const used = new Map([
    [second, [...other, ...other]],
    [last, prompt],
    [first, prompt],
  ]);
  for (const [sequence, read] of used) await sequence.read(read, ALONE);
  const alone = await step(first);
  await first.truncate(PROMPT_TOKENS);
  const beside = await Promise.all([...used.keys()].map(step));
  for (const sequence of used.keys()) await sequence.truncate(0);
  const same = beside.filter((_, at) => [...used.values()][at] === prompt);
  return same.every((score) => isEqual(score, alone)) ? 'together' : 'alone';
}

const tokens = (factor: number): Token[] =>
  Array.from({ length: PROMPT_TOKENS }, (_, at) => (at * factor + 10) as Token);

async function step(sequence: Sequence): Promise<TokenScore> {
  const following = [20 as Token];
  const [score = new Map()] = await sequence.score(following, { priority: steadyBy(sequence.id), following, top: TOP });
  return score;
}

function isEqual(left: TokenScore, right: TokenScore): boolean {
  return left.size === right.size && [...left].every(([token, score]) => Object.is(right.get(token), score));
}

/**
 * llama.cpp divides a row among threads if it computes no neighbour with it, which changes its result. A batch with such a row of a
 * reproducible request has one thread.
 */
export function needsOneThread(steps: readonly Step[]): boolean {
  const ids = new Set(steps.map(({ sequenceId }) => sequenceId));
  const hasNeighbour = ({ sequenceId: id }: Step) => ids.has(id - 1) || ids.has(id + 1);
  return steps.some((step) => runsAlone(step) || (isSteadyStep(step) && !hasNeighbour(step)));
}
