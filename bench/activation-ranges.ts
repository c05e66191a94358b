/**
 * Measures `activation_ranges: token`: how much a text's vector depends on the rest of its batch, and the time per token.
 *
 *   node bench/activation-ranges.ts [slug] [rounds]
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { OnnxOptions } from '../src/engines/onnx/driver.ts';
import { withRowWiseRanges } from '../src/engines/onnx/graph/row-wise.ts';
import { pool } from '../src/engines/onnx/pooling.ts';
import { type EncoderSession, openSession } from '../src/engines/onnx/session.ts';
import { loadTokenizer } from '../src/engines/onnx/tokenizer/tokenizer.ts';
import { weights } from '../test/models/weights.ts';
import { passages } from './embeddings/texts.ts';
import { median } from './measure.ts';

const [slug = 'baobab/embed-multilingual', rounds = '3'] = process.argv.slice(2);
const BATCH = 8;
const BATCHES = 12;

const spec = await weights<OnnxOptions>(slug);
const path = join(spec.directory, spec.engine.options.model);
const tokenizer = await loadTokenizer(join(spec.directory, spec.engine.options.tokenizer));
const sequences = passages(BATCH * BATCHES).map((text) => ({
  ids: tokenizer.encode(text, tokenizer.template.single).slice(0, 48),
}));

const file = await readFile(path);
const startedAt = performance.now();
withRowWiseRanges(file);
console.log(`rewriting ${(file.length / 1e6).toFixed(0)} MB: ${(performance.now() - startedAt).toFixed(0)} ms`);

async function vectors(session: EncoderSession, rows: number): Promise<Float32Array[]> {
  const result: Float32Array[] = [];
  for (let at = 0; at < sequences.length; at += rows) {
    const batch = sequences.slice(at, at + rows);
    const output = await session.run({ sequences: batch, length: Math.max(...batch.map(({ ids }) => ids.length)) });
    for (const [row, { ids }] of batch.entries()) {
      const vector = new Float32Array(output.dims.at(-1) ?? 0);
      pool({ output, row, tokens: ids.length }, 'mean', vector);
      result.push(vector);
    }
  }
  return result;
}

const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0);

const sessions = await Promise.all(
  [false, true].map((rowWiseRanges) =>
    openSession({
      model: path,
      threads: 1,
      padId: tokenizer.padId,
      rowWiseRanges,
      outputs: ['last_hidden_state', 'token_embeddings'],
    }),
  ),
);
const seconds: number[][] = sessions.map(() => []);
for (const [at, session] of sessions.entries()) {
  const alone = await vectors(session, 1);
  const together = await vectors(session, BATCH);
  const cosines = alone.map((vector, index) => dot(vector, together[index] ?? vector));
  const name = at === 0 ? 'one range per batch' : 'one range per token';
  const moved = alone.filter((vector, index) => vector.some((value, i) => value !== together[index]?.[i])).length;
  console.log(
    `${name}: ${moved} of ${alone.length} vectors differ between alone and in a batch of ${BATCH}; ` +
      `smallest cosine ${Math.min(...cosines).toFixed(4)}, median ${median(cosines).toFixed(4)}`,
  );
}
for (let round = 0; round < Number(rounds); round++) {
  for (const [at, session] of sessions.entries()) {
    const before = process.cpuUsage();
    await vectors(session, BATCH);
    seconds[at]?.push(process.cpuUsage(before).user / 1e6);
  }
}
const [batchRanges = [], tokenRanges = []] = seconds;
console.log(`one range per token takes ${(median(tokenRanges) / median(batchRanges)).toFixed(2)} times as long`);
for (const session of sessions) await session[Symbol.asyncDispose]();
