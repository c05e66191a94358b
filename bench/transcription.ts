/**
 * Compares Whisper in Baobab with the automatic-speech-recognition pipeline of transformers.js: the same weights, clip, threads and
 * runtime, alternating in one run. Prints the real-time factor (seconds of work per second of audio; smaller is faster) and ratios
 * (above 1: Baobab is faster). Ratios are reliable on a busy machine, single figures are not.
 *
 *   node bench/transcription.ts [--models tiny,base,small] [--rounds 3] [--clips 4] [--threads 1]
 */
import { mkdir, mkdtempDisposable, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import type { LoadSpec } from '../packages/core/src/engine/driver.ts';
import { decodeAudio } from '../packages/engines/src/audio/reader.ts';
import type { OnnxOptions } from '../packages/engines/src/onnx/driver.ts';
import { load } from '../packages/engines/src/onnx/load.ts';
import { weights } from '../test/models/weights.ts';
import { median } from './measure.ts';

const { values } = parseArgs({
  options: {
    models: { type: 'string', default: 'tiny,base,small' },
    rounds: { type: 'string', default: '3' },
    clips: { type: 'string', default: '4' },
    threads: { type: 'string', default: '1' },
  },
});
const rounds = Number(values.rounds);
const clips = Number(values.clips);
const threads = Number(values.threads);

type Transcribe = (samples: Float32Array) => Promise<string>;

async function ours(spec: LoadSpec<OnnxOptions>): Promise<{ transcribe: Transcribe } & AsyncDisposable> {
  const model = await load({ ...spec, threads, parallelSequences: clips });
  const context = { requestId: 'bench', accountId: 'bench', keyId: 'bench', priority: 'interactive' } as const;
  return {
    async transcribe(samples) {
      const request = { samples, language: 'en' };
      const result = await model.transcription?.transcribe(request, {
        ...context,
        signal: new AbortController().signal,
      });
      return result?.segments.map((segment) => segment.text).join('') ?? '';
    },
    [Symbol.asyncDispose]: () => model[Symbol.asyncDispose](),
  };
}

/** Links the weights into the file layout that the pipeline expects. */
async function theirs(
  spec: LoadSpec<OnnxOptions>,
  directory: string,
): Promise<{ transcribe: Transcribe } & AsyncDisposable> {
  const { env, pipeline } = await import('@huggingface/transformers');
  if (spec.engine.options.decoder === undefined) throw new Error(`${spec.slug} is not a Whisper model`);
  const links = {
    'onnx/encoder_model_quantized.onnx': spec.engine.options.model,
    'onnx/decoder_model_merged_quantized.onnx': spec.engine.options.decoder,
    'tokenizer.json': spec.engine.options.tokenizer,
    'tokenizer_config.json': 'tokenizer_config.json',
    'config.json': 'config.json',
    'generation_config.json': 'generation_config.json',
    'preprocessor_config.json': 'preprocessor_config.json',
  };
  for (const [name, file] of Object.entries(links)) {
    const path = join(directory, spec.slug, name);
    await mkdir(dirname(path), { recursive: true });
    await symlink(join(spec.directory, file), path);
  }
  env.allowRemoteModels = false;
  env.localModelPath = directory;
  const recognize = await pipeline('automatic-speech-recognition', spec.slug, {
    dtype: 'q8',
    session_options: { intraOpNumThreads: threads },
  });
  return {
    async transcribe(samples) {
      const result = await recognize(samples, { return_timestamps: true, language: 'en' });
      return Array.isArray(result) ? result.map(({ text }) => text).join('') : result.text;
    },
    [Symbol.asyncDispose]: () => recognize.dispose(),
  };
}

async function measure(work: () => Promise<unknown>): Promise<{ wallSeconds: number; cpuSeconds: number }> {
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(cpu);
  return { wallSeconds: (performance.now() - start) / 1000, cpuSeconds: (user + system) / 1e6 };
}

const chunks = await Array.fromAsync(
  decodeAudio(join(import.meta.dirname, '../test/fixtures/audio/weather.ogg'), {
    signal: new AbortController().signal,
  }),
);
const clip = Float32Array.from(chunks.flatMap((chunk) => [...chunk]));
const clipSeconds = clip.length / 16_000;
console.log(`clip of ${clipSeconds.toFixed(1)} s, ${threads} thread(s), median of ${rounds} rounds\n`);

for (const name of values.models.split(',')) {
  const spec = await weights<OnnxOptions>(`openai/whisper-${name}`);
  await using directory = await mkdtempDisposable(join(tmpdir(), 'bench-'));
  await using baobab = await ours(spec);
  await using transformers = await theirs(spec, directory.path);
  const texts = [await baobab.transcribe(clip), await transformers.transcribe(clip)];
  console.log(`whisper-${name}\n  baobab:          ${texts[0]?.trim()}\n  transformers.js: ${texts[1]?.trim()}`);
  for (const count of [1, clips]) {
    const work = (transcribe: Transcribe) => () => Promise.all(Array.from({ length: count }, () => transcribe(clip)));
    const results = { baobab: [], transformers: [] } as Record<string, { wallSeconds: number; cpuSeconds: number }[]>;
    for (let round = 0; round < rounds; round++) {
      results.baobab?.push(await measure(work(baobab.transcribe)));
      results.transformers?.push(await measure(work(transformers.transcribe)));
    }
    const of = (who: string, what: 'wallSeconds' | 'cpuSeconds') =>
      median(results[who]?.map((each) => each[what]) ?? []);
    const factor = (who: string) => (of(who, 'wallSeconds') / (count * clipSeconds)).toFixed(3);
    const ratio = (what: 'wallSeconds' | 'cpuSeconds') => (of('transformers', what) / of('baobab', what)).toFixed(2);
    console.log(
      `  ${count} clip(s): real-time factor ${factor('baobab')} against ${factor('transformers')}; ` +
        `ratio ${ratio('wallSeconds')} by wall time, ${ratio('cpuSeconds')} by processor time`,
    );
  }
}
