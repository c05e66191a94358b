import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { EngineModel } from '@baobab/core/engine/engine.ts';
import { type OnnxOptions, WINDOWS_TOGETHER } from '../driver.ts';
import type { AlignmentHead } from './alignment.ts';
import { createWindowBatches } from './batches.ts';
import { createDecoder } from './decoding.ts';
import { createLogMel, SAMPLE_RATE } from './log-mel.ts';
import { openNetwork } from './network.ts';
import { createRules } from './rules.ts';
import { Transcriber, WINDOW_SECONDS } from './transcriber.ts';
import { createVocabulary, type TokenizerFile } from './vocabulary.ts';
import { createReader } from './window-reader.ts';

interface ModelConfig {
  d_model: number;
  decoder_layers: number;
  decoder_attention_heads: number;
  num_mel_bins: number;
  vocab_size: number;
  max_target_positions: number;
  suppress_tokens?: readonly number[] | null;
}

interface GenerationConfig {
  suppress_tokens?: readonly number[] | null;
  alignment_heads?: readonly AlignmentHead[] | null;
  is_multilingual?: boolean | null;
}

/** Whisper as exported by Optimum: an encoder and a merged decoder with key-value cache. */
export async function load(spec: LoadSpec<OnnxOptions>): Promise<EngineModel> {
  const { directory, threads } = spec;
  const { model, decoder, tokenizer: tokenizerFile } = spec.engine.options;
  if (decoder === undefined) throw new Error(`${spec.slug}: whisper needs a decoder`);
  const [tokenizer, config, generation] = await Promise.all([
    readJson<TokenizerFile>(join(directory, tokenizerFile)),
    readJson<ModelConfig>(join(directory, 'config.json')),
    readJson<GenerationConfig>(join(directory, 'generation_config.json')),
  ]);
  const vocabulary = createVocabulary(tokenizer);
  const network = await openNetwork(
    { directory, encoder: model, decoder, threads },
    {
      decoderLayers: config.decoder_layers,
      heads: config.decoder_attention_heads,
      modelSize: config.d_model,
      melBins: config.num_mel_bins,
      vocabularySize: config.vocab_size,
    },
  );
  const contextSize = config.max_target_positions;
  const rules = createRules(vocabulary, generation.suppress_tokens ?? config.suppress_tokens ?? []);
  const decode = createDecoder({ network, vocabulary, rules, contextSize });
  const batches = createWindowBatches(network, decode, Math.max(WINDOWS_TOGETHER, spec.parallelSequences));
  const logMel = createLogMel(config.num_mel_bins, WINDOW_SECONDS * SAMPLE_RATE);
  const heads = generation.alignment_heads ?? upperHalf(config);

  const read = createReader({ batches, vocabulary, contextSize });
  const transcriber = new Transcriber({
    network,
    vocabulary,
    heads,
    batches,
    logMel,
    read,
    translates: generation.is_multilingual ?? true,
  });

  return {
    countTokens: async (text) => vocabulary.encode(text).length,
    tokenizer: {
      encode: async (text) => vocabulary.encode(text),
      decode: async (ids) => vocabulary.decode(ids),
    },
    transcription: { transcribe: (request, context) => transcriber.transcribe(request, context) },
    [Symbol.asyncDispose]: () => network.release(),
  };
}

async function readJson<T>(path: string): Promise<T> {
  return JSON.parse(await readFile(path, 'utf8')) as T;
}

/** The reference's choice where a model does not name its alignment heads: all heads of the upper half of the layers. */
function upperHalf(config: ModelConfig): AlignmentHead[] {
  const from = Math.floor(config.decoder_layers / 2);
  return Array.from({ length: config.decoder_layers - from }, (_, i) => i + from).flatMap((layer) =>
    Array.from({ length: config.decoder_attention_heads }, (_, head): AlignmentHead => [layer, head]),
  );
}
