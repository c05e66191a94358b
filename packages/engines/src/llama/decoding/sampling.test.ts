import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SamplingOptions } from '@baobab/core/engine/engine.ts';
import { getLlama, LlamaLogLevel, type LlamaModel } from 'node-llama-cpp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selfTestModel } from '../backend/test-model.ts';
import { samplingOptions } from './sampling.ts';

/** The library's own default, which it would apply if it read `null` as "not given". */
const LIBRARY_TOP_K = 40;
const SEEDS = 300;

describe('sampling without top-k', () => {
  let directory: string;
  let model: LlamaModel;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'baobab-sampling-'));
    const modelPath = join(directory, 'model.gguf');
    await writeFile(modelPath, selfTestModel());
    const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
    model = await llama.loadModel({ modelPath });
  });
  afterAll(async () => {
    await model.dispose();
    await rm(directory, { recursive: true });
  });

  const options = (seed: number, request: SamplingOptions = {}) =>
    samplingOptions({
      request: { temperature: 2, topP: 1, seed, ...request },
      generated: [],
      maxTokens: 1,
      randomSeed: () => 1,
    });

  it('chooses among more tokens than the library would by default', async () => {
    const context = await model.createContext({ contextSize: 64, threads: 1 });
    const sequence = context.getSequence();
    const prompt = model.tokenize('one');
    const chosen = new Set<number>();
    for (let seed = 1; seed <= SEEDS; seed += 1) {
      await sequence.eraseContextTokenRanges([{ start: 0, end: sequence.nextTokenIndex }]);
      for await (const token of sequence.evaluate(prompt, { ...options(seed), yieldEogToken: true })) {
        chosen.add(token);
        break;
      }
    }
    await context.dispose();
    expect(chosen.size).toBeGreaterThan(LIBRARY_TOP_K);
  });

  /** A step for top-k sorts that many for every token, which no answer shows. The library adds none for a `topP` of 1 or a `minP` of 0. */
  it('never has the whole vocabulary sorted', async () => {
    const context = await model.createContext({ contextSize: 64, threads: 1 });
    const sequence = context.getSequence();
    const resolve: unknown = Reflect.get(sequence, '_resolveSamplerConfig');
    if (typeof resolve !== 'function') throw new Error('node-llama-cpp hands its sampling options over in another way');
    const config = (request: SamplingOptions): object => Reflect.apply(resolve, sequence, [options(1, request)]);
    for (const request of [{}, { temperature: 0 }, { logprobs: { top: 2 } }, { minP: 0 }]) {
      expect(config(request)).not.toHaveProperty('topK');
      expect(config(request)).toHaveProperty('topP', 1);
    }
    expect(config({ topK: 5 })).toHaveProperty('topK', 5);
    expect(config({ topP: 0.95 })).toHaveProperty('topK', 4_096);
    expect(config({ topP: 0.95, topK: 5 })).toHaveProperty('topK', 5);
    await context.dispose();
  });
});
