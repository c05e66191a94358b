import { join } from 'node:path';
import { expect, it } from 'vitest';
import { fingerprint, measure } from '../../packages/engines/src/onnx/layout/trials.ts';

const directory = join(import.meta.dirname, '../../models/embed-multilingual/2026-11-20');
const { signal } = new AbortController();
const candidates = [
  { processes: 2, threads: 1 },
  { processes: 1, threads: 2 },
];

it.each(['batch', 'token'])('a trial measures every layout, with ranges by %s', async (activationRanges) => {
  const options = { model: 'model_quantized.onnx', tokenizer: 'tokenizer.json', activationRanges };
  const engine = { driver: 'onnx', task: 'embedding', options } as const;
  const results = await measure({ engine, directory, candidates, environment: { PATH: process.env.PATH }, signal });
  expect(results.map(({ processes, threads }) => ({ processes, threads }))).toEqual(candidates);
  for (const { tokensPerSecond } of results) expect(tokensPerSecond).toBeGreaterThan(100);
});

it('a trial of a broken model fails', async () => {
  const engine = { driver: 'onnx', task: 'embedding', options: { model: 'absent.onnx', tokenizer: '' } } as const;
  await expect(measure({ engine, directory, candidates, environment: {}, signal })).rejects.toThrow('trial');
});

it('a trial ends with the service', async () => {
  const options = { model: 'model_quantized.onnx', tokenizer: 'tokenizer.json' };
  const engine = { driver: 'onnx', task: 'embedding', options } as const;
  const stop = new AbortController();
  const running = measure({ engine, directory, candidates, environment: {}, signal: stop.signal });
  stop.abort();
  await expect(running).rejects.toThrow();
});

it('a result holds for one version of the runtime', () => {
  expect(fingerprint()).toMatch(/^onnxruntime \d+\.\d+\.\d+, 2 × 128 tokens$/);
});
