/**
 * Compares our WordPiece tokenizer with @huggingface/tokenizers: equal ids, and tokens per second on one core, alternating.
 *
 *   node bench/tokenizer.ts [slug] [rounds]
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import type { OnnxOptions } from '../src/engines/onnx/driver.ts';
import { loadTokenizer } from '../src/engines/onnx/tokenizer/tokenizer.ts';
import { weights } from '../test/models/weights.ts';
import { passages } from './embeddings/texts.ts';
import { median } from './measure.ts';

const [slug = 'sentence-transformers/all-minilm-l6-v2', rounds = '5'] = process.argv.slice(2);
const PASSAGES = 500;

const spec = await weights<OnnxOptions>(slug);
const path = join(spec.directory, spec.engine.options.tokenizer);
const own = await loadTokenizer(path);
const reference = new Tokenizer(JSON.parse(await readFile(path, 'utf8')), {});
const encoders = {
  baobab: (text: string): ArrayLike<number> => own.encode(text),
  '@huggingface/tokenizers': (text: string): ArrayLike<number> =>
    reference.encode(text, { add_special_tokens: false }).ids,
};

const english = passages(PASSAGES);
const mixed = english.map((text, index) => `${text} Ünïcode ${index} 東京 مرحبا n’dà…`);

for (const [name, texts] of Object.entries({ english, mixed })) {
  const different = texts.filter(
    (text) => `${Array.from(encoders.baobab(text))}` !== `${encoders['@huggingface/tokenizers'](text)}`,
  );
  const tokens = texts.reduce((sum, text) => sum + own.encode(text).length, 0);
  const seconds = { baobab: [] as number[], '@huggingface/tokenizers': [] as number[] };
  for (let round = 0; round < Number(rounds); round++) {
    for (const encoder of ['baobab', '@huggingface/tokenizers'] as const) {
      const before = process.cpuUsage();
      for (const text of texts) encoders[encoder](text);
      seconds[encoder].push(process.cpuUsage(before).user / 1e6);
    }
  }
  const speed = (encoder: keyof typeof seconds) => tokens / median(seconds[encoder]);
  console.log(
    `${name}: ${texts.length} texts, ${tokens} tokens, ${different.length} with different ids; tokens/s: ` +
      `baobab ${Math.round(speed('baobab'))}, @huggingface/tokenizers ${Math.round(speed('@huggingface/tokenizers'))}, ` +
      `ratio ${(speed('baobab') / speed('@huggingface/tokenizers')).toFixed(1)}`,
  );
}
