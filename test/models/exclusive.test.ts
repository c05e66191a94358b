import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineModel } from '../../packages/core/src/engine/engine.ts';
import type { OnnxOptions } from '../../packages/engines/src/onnx/driver.ts';
import { load } from '../../packages/engines/src/onnx/load.ts';
import { loadCatalog } from '../../packages/server/src/catalog/load.ts';
import { weights } from './weights.ts';

interface Expectation {
  floor: { bitext: Record<string, number>; bitext_64: Record<string, number>; sts: Record<string, number> };
}

const SAMPLE = join(import.meta.dirname, '../fixtures/eval-sample');
const read = (name: string) => JSON.parse(readFileSync(join(SAMPLE, name), 'utf8'));
const expected = read('expected.json') as { model: string; versions: Record<string, Expectation> };
const sample = read('sample.json') as {
  flores: Record<string, string[]>;
  rerank: { query: string; passages: string[]; relevant: Record<string, number> }[];
  stsb: Record<string, { first: string[]; second: string[]; score: number[] }>;
};

const context = {
  requestId: 'test',
  signal: new AbortController().signal,
  accountId: 'account',
  keyId: 'key',
  priority: 'interactive' as const,
};

const dot = (left: Float32Array, right: Float32Array) =>
  left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);

function ranks(values: readonly number[]): number[] {
  const order = values.map((_, index) => index).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
  const result: number[] = new Array(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end + 1 < order.length && values[order[end + 1] as number] === values[order[start] as number]) end += 1;
    for (let place = start; place <= end; place += 1) result[order[place] as number] = (start + end) / 2;
    start = end + 1;
  }
  return result;
}

function spearman(left: readonly number[], right: readonly number[]): number {
  const [a, b] = [ranks(left), ranks(right)];
  const mean = (a.length - 1) / 2;
  const covariance = (x: number[], y: number[]) =>
    x.reduce((sum, value, index) => sum + (value - mean) * ((y[index] ?? 0) - mean), 0);
  return covariance(a, b) / Math.sqrt(covariance(a, a) * covariance(b, b));
}

/** They ship with the service, so that reranking works without a network too. Their score curves were not fitted to these samples. */
describe.each(['baobab/rerank-multilingual', 'baobab/rerank-mini'])('%s', (slug) => {
  let model: EngineModel;
  beforeAll(async () => {
    model = await load(await weights(slug));
  });
  afterAll(() => model[Symbol.asyncDispose]());

  async function best(query: string, documents: readonly string[]): Promise<{ index: number; scores: number[] }> {
    const result = await model.rerank?.rerank({ query, documents }, context);
    const scores = [...(result?.scores ?? [])];
    return { index: scores.indexOf(Math.max(...scores)), scores };
  }

  it('puts the passage that answers first', async () => {
    for (const { query, passages, relevant } of sample.rerank) {
      const { index, scores } = await best(query, passages);
      expect(String(index), query).toBe(Object.keys(relevant)[0]);
      expect(Math.min(...scores)).toBeGreaterThanOrEqual(0);
      expect(scores[index]).toBeGreaterThan(0.5);
      expect(Math.max(...scores.toSpliced(index, 1))).toBeLessThan(0.5);
    }
  });

  it('finds an English sentence by its Swahili translation', async () => {
    const english = (sample.flores.eng ?? []).slice(0, 20);
    const found = await Promise.all((sample.flores.swh ?? []).slice(0, 20).map((query) => best(query, english)));
    expect(found.filter(({ index }, row) => index === row).length).toBeGreaterThanOrEqual(19);
  });
});

it('a version turns the same match into a score by its own curve', async () => {
  const found = await weights<OnnxOptions>('baobab/rerank-multilingual');
  const { query, passages } = sample.rerank[0] ?? { query: '', passages: [] };
  const matches = async (matchMiddle: number, matchSteepness: number) => {
    const options = { ...found.engine.options, matchMiddle, matchSteepness };
    await using model = await load({ ...found, engine: { ...found.engine, options } });
    const result = await model.rerank?.rerank({ query, documents: passages }, context);
    const scores = [...(result?.scores ?? [])];
    return { scores, matches: scores.map((score) => matchMiddle + Math.log(score / (1 - score)) / matchSteepness) };
  };
  const [one, other] = [await matches(0.511, 15.5), await matches(0.45, 20)];
  expect(one.scores).toHaveLength(passages.length);
  expect(passages.length).toBeGreaterThan(1);
  for (const [index, match] of one.matches.entries()) {
    expect(other.scores[index]).not.toBe(one.scores[index]);
    expect(other.matches[index]).toBeCloseTo(match, 4);
  }
});

const inCatalog = loadCatalog([join(import.meta.dirname, '../../catalog')]).find(({ slug }) => slug === expected.model);

it('every version of the encoder has figures to be held to', () => {
  expect(Object.keys(expected.versions).toSorted()).toEqual(
    inCatalog?.versions.map(({ version }) => version).toSorted(),
  );
});

/** The figures of the model card, on a small fixed sample, through the engine that serves the model. */
describe.each(Object.entries(expected.versions))(`${expected.model}@%s`, (version, { floor }) => {
  let model: EngineModel;
  beforeAll(async () => {
    model = await load(await weights(`${expected.model}@${version}`));
  });
  afterAll(() => model[Symbol.asyncDispose]());

  async function embed(inputs: readonly string[], dimensions?: number): Promise<Float32Array[]> {
    const result = await model.embedding?.embed({ inputs, dimensions }, context);
    if (result === undefined) throw new Error('it cannot embed');
    return inputs.map((_, row) => result.vectors.subarray(row * result.dimensions, (row + 1) * result.dimensions));
  }

  /** Share of sentences whose translation is the nearest, mean of both directions. */
  function retrieval(left: readonly Float32Array[], right: readonly Float32Array[]): number {
    const hits = (from: readonly Float32Array[], to: readonly Float32Array[]) =>
      from.filter((vector, row) => {
        const scores = to.map((other) => dot(vector, other));
        return scores.indexOf(Math.max(...scores)) === row;
      }).length / from.length;
    return (hits(left, right) + hits(right, left)) / 2;
  }

  /** The vectors of each language are computed once: they take most of the time of these tests. */
  const whole = new Map<string, Promise<Float32Array[]>>();
  function sentencesIn(language: string): Promise<Float32Array[]> {
    const known = whole.get(language) ?? embed(sample.flores[language] ?? []);
    whole.set(language, known);
    return known;
  }
  async function findsTranslations(floors: Record<string, number>, cut: (vector: Float32Array) => Float32Array) {
    const english = (await sentencesIn('eng')).map(cut);
    for (const [language, least] of Object.entries(floors)) {
      const found = retrieval((await sentencesIn(language)).map(cut), english);
      expect(found, language).toBeGreaterThanOrEqual(least);
    }
  }

  it('finds translations with 384 dimensions', () => findsTranslations(floor.bitext, (vector) => vector));

  it('finds translations with 64 dimensions, the first ones with their length made 1', async () => {
    const cut = (vector: Float32Array) => {
      const first = vector.subarray(0, 64);
      const length = Math.sqrt(dot(first, first));
      return first.map((value) => value / length);
    };
    const short = await embed(sample.flores.swh ?? [], 64);
    const long = await sentencesIn('swh');
    for (const [row, vector] of short.entries()) {
      expect(vector).toHaveLength(64);
      expect(dot(vector, vector)).toBeCloseTo(1, 5);
      expect(dot(vector, cut(long[row] as Float32Array))).toBeCloseTo(1, 5);
    }
    await findsTranslations(floor.bitext_64, cut);
  });

  it.each(Object.entries(floor.sts))('scores similarity in %s as people do', async (language, least) => {
    const { first = [], second = [], score = [] } = sample.stsb[language] ?? {};
    const left = await embed(first);
    const right = await embed(second);
    const found = left.map((vector, row) => dot(vector, right[row] as Float32Array));
    expect(spearman(found, score)).toBeGreaterThanOrEqual(least);
  });

  it('gives a text the same vector alone and in a batch, bit by bit', async () => {
    const texts = [...(sample.flores.swh ?? []).slice(0, 12), ...(sample.flores.amh ?? []).slice(0, 12), 'Hi'];
    const together = await embed(texts);
    for (const [row, text] of texts.entries()) {
      const [alone] = await embed([text]);
      expect(alone).toEqual(together[row]);
    }
  });

  it('puts a Swahili greeting near the English one and far from other texts', async () => {
    const [swahili, english, recipe] = (await embed([
      'Habari ya dunia',
      'Hello world',
      'The recipe needs two eggs and some flour',
    ])) as [Float32Array, Float32Array, Float32Array];
    expect(dot(swahili, english)).toBeGreaterThan(0.5);
    expect(dot(swahili, recipe)).toBeLessThan(0.3);
  });
});
