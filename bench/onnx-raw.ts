/**
 * Compares raw onnxruntime in its best batch shape with our driver on the same weights, one thread, alternating in one process.
 * `node bench/onnx-raw.ts [slug] [rounds]`. Uses CPU time, which is less affected by other load than wall time.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { CallContext } from '../src/engines/engine.ts';
import type { OnnxOptions } from '../src/engines/onnx/driver.ts';
import { load } from '../src/engines/onnx/load.ts';
import { loadTokenizer } from '../src/engines/onnx/tokenizer/tokenizer.ts';
import { weights } from '../test/models/weights.ts';

const [slug = 'sentence-transformers/all-minilm-l6-v2', rounds = '7'] = process.argv.slice(2);

const TOKENS = [8, 16, 32, 64, 128, 256] as const;
/** Rows times tokens per raw run. */
const BUDGETS = [128, 256, 512, 1024] as const;
const INPUTS = 256;

const spec = await weights<OnnxOptions>(slug);
const session = await InferenceSession.create(join(spec.directory, spec.engine.options.model), {
  graphOptimizationLevel: 'all',
  executionMode: 'sequential',
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
});
await using model = await load({ ...spec, threads: 1 });
const tokenizer = await loadTokenizer(join(spec.directory, spec.engine.options.tokenizer));

const context: CallContext = {
  requestId: 'bench',
  signal: new AbortController().signal,
  accountId: 'bench',
  keyId: 'bench',
  priority: 'interactive',
};

/** English words, so the tokenizer does real work. Cut to the exact number of tokens. */
const words = (await readFile(join(import.meta.dirname, '../README.md'), 'utf8').catch(() => ''))
  .concat(' The quick brown fox jumps over the lazy dog while seven engineers measure their embedding service again.')
  .match(/[a-z]+/gi) ?? ['word'];

function text(tokens: number, offset: number): string {
  let result = '';
  for (let i = offset; ; i++) {
    const longer = `${result} ${words[i % words.length]}`;
    if (tokenizer.encode(longer).length > tokens - 2) break;
    result = longer;
  }
  for (let left = tokens - 2 - tokenizer.encode(result).length; left > 0; left--) result += ' .';
  return result;
}

function rawBatch(rows: number, length: number): Record<string, Tensor> {
  const fill = (value: (i: number) => bigint) =>
    new Tensor(
      'int64',
      BigInt64Array.from({ length: rows * length }, (_, i) => value(i)),
      [rows, length],
    );
  const inputs: Record<string, Tensor> = {
    input_ids: fill((i) => BigInt(1000 + ((i * 7919) % 20_000))),
    attention_mask: fill(() => 1n),
    token_type_ids: fill(() => 0n),
  };
  return Object.fromEntries(session.inputNames.map((name) => [name, inputs[name] as Tensor]));
}

async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? 0;

for (const tokens of TOKENS) {
  const inputs = Array.from({ length: Math.min(INPUTS, 8192 / tokens) }, (_, i) => text(tokens, i * 3));
  const total = inputs.length * tokens;
  const raw = new Map<number, number[]>(BUDGETS.filter((budget) => budget >= tokens).map((budget) => [budget, []]));
  const driver: number[] = [];
  for (let round = 0; round <= Number(rounds); round++) {
    for (const [budget, times] of raw) {
      const rows = Math.min(inputs.length, budget / tokens);
      const feeds = rawBatch(rows, tokens);
      const ms = await cpuMs(async () => {
        for (let done = 0; done < inputs.length; done += rows) await session.run(feeds);
      });
      if (round > 0) times.push(ms);
    }
    const ms = await cpuMs(async () => model.embedding?.embed({ inputs }, context));
    if (round > 0) driver.push(ms);
  }
  const speeds = [...raw].map(([budget, times]) => ({ budget, speed: (total / median(times)) * 1000 }));
  const best = speeds.reduce((a, b) => (b.speed > a.speed ? b : a));
  const through = (total / median(driver)) * 1000;
  console.log(
    `${String(tokens).padStart(4)} tokens  raw ${speeds.map(({ budget, speed }) => `${budget}: ${speed.toFixed(0)}`).join('  ')} tokens/s` +
      `  driver ${through.toFixed(0)}  ratio to best (${best.budget}) ${(through / best.speed).toFixed(3)}`,
  );
}
await session.release();
