import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import type { Tensor } from 'onnxruntime-node';
import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { LoadSpec } from '../../driver.ts';
import type {
  CallContext,
  EngineModel,
  TranscribedSegment,
  TranscriptionRequest,
  TranscriptionResult,
} from '../../engine.ts';
import { type OnnxOptions, WINDOWS_TOGETHER } from '../driver.ts';
import { type AlignmentHead, alignTokens } from './alignment.ts';
import { createWindowBatches } from './batches.ts';
import { createDecoder, type Decoded } from './decoding.ts';
import { createLogMel, SAMPLE_RATE } from './log-mel.ts';
import { openNetwork } from './network.ts';
import { createRules } from './rules.ts';
import { type SplitTokens, splitTokens, type TokenSegment } from './segments.ts';
import { isSilent, soundingSeconds } from './silence.ts';
import { createVocabulary, type TokenizerFile } from './vocabulary.ts';
import { wordsOf } from './words.ts';

// Thresholds of OpenAI's reference decoder.
const TEMPERATURES = [0, 0.2, 0.4, 0.6, 0.8, 1];
const MAX_COMPRESSION_RATIO = 2.4;
const MIN_AVERAGE_LOGPROB = -1;
const MIN_NO_SPEECH_PROBABILITY = 0.6;

const WINDOW_SECONDS = 30;
/** A rest with less sound than this is not read again. */
const MIN_REST_SECONDS = 1;
const MIN_CONFIDENT_LOGPROB = -0.7;

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
}

interface Reading extends Decoded {
  temperature: number;
  compressionRatio: number;
  /** Repeats itself. */
  stuck: boolean;
}

/** Where no temperature passes, the likeliest reading that does not repeat itself is the least bad one. */
const isBetter = (one: Reading, other: Reading) =>
  one.stuck === other.stuck ? one.averageLogprob > other.averageLogprob : other.stuck;

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
  const halfContext = config.max_target_positions / 2;
  const rules = createRules(vocabulary, generation.suppress_tokens ?? config.suppress_tokens ?? []);
  const decode = createDecoder({ network, vocabulary, rules, contextSize: config.max_target_positions });
  const batches = createWindowBatches(network, decode, Math.max(WINDOWS_TOGETHER, spec.parallelSequences));
  const logMel = createLogMel(config.num_mel_bins, WINDOW_SECONDS * SAMPLE_RATE);
  const heads = generation.alignment_heads ?? upperHalf(config);

  /** Reads at rising temperature until the text is likely and not stuck. */
  async function read(hidden: Tensor, request: TranscriptionRequest, signal: AbortSignal) {
    const previous = request.prompt ? vocabulary.encode(` ${request.prompt.trim()}`).slice(1 - halfContext) : [];
    const lowest = request.temperature ?? 0;
    let best: Reading | undefined;
    for (const temperature of [lowest, ...TEMPERATURES.filter((t) => t > lowest)]) {
      const decoded = await batches.decode({
        hidden,
        previous,
        language: request.language,
        task: request.task ?? 'transcribe',
        temperature,
        signal,
      });
      const ratio = compressionRatio(vocabulary.decode(decoded.tokens));
      const stuck = decoded.repetitive || ratio > MAX_COMPRESSION_RATIO;
      const reading = { ...decoded, temperature, compressionRatio: ratio, stuck };
      const silent = reading.noSpeechProbability > MIN_NO_SPEECH_PROBABILITY;
      if (!stuck && (reading.averageLogprob >= MIN_AVERAGE_LOGPROB || silent)) return reading;
      best = best === undefined || isBetter(reading, best) ? reading : best;
    }
    return best as Reading;
  }

  async function toSegments(
    parts: readonly TokenSegment[],
    reading: Reading,
    at: {
      hidden: Tensor;
      offset: number;
      duration: number;
      request: TranscriptionRequest;
    },
  ): Promise<TranscribedSegment[]> {
    const textTokens = parts.flatMap((part) => part.tokens);
    const boundaries = at.request.wordTimestamps
      ? await alignTokens(
          { network, vocabulary, heads },
          {
            hidden: at.hidden,
            language: reading.language,
            task: at.request.task ?? 'transcribe',
            textTokens,
            durationSeconds: at.duration,
          },
        )
      : undefined;
    let first = 0;
    return parts.flatMap((part) => {
      const own = boundaries?.slice(first, first + part.tokens.length + 1).map((seconds) => seconds + at.offset);
      first += part.tokens.length;
      const text = vocabulary.decode(part.tokens);
      if (text.trim() === '') return [];
      return {
        startSeconds: at.offset + part.startSeconds,
        endSeconds: at.offset + part.endSeconds,
        text,
        tokens: part.tokens,
        temperature: reading.temperature,
        averageLogprob: reading.averageLogprob,
        compressionRatio: reading.compressionRatio,
        noSpeechProbability: reading.noSpeechProbability,
        ...(own && { words: wordsOf(part.tokens, own, { language: reading.language, vocabulary }) }),
      };
    });
  }

  async function transcribe(request: TranscriptionRequest, { signal }: CallContext): Promise<TranscriptionResult> {
    const { samples } = request;
    if (request.language !== undefined && !vocabulary.languages.has(request.language)) {
      throw errors.invalidParameter(
        ['language'],
        `This model does not know the language '${request.language}'. Send an ISO 639-1 code such as 'en' or 'sw', or leave it out.`,
      );
    }
    if (samples.length > WINDOW_SECONDS * SAMPLE_RATE) throw new Error('A window is longer than 30 s');
    const segments: TranscribedSegment[] = [];
    let language = request.language ?? '';
    let offset = 0;
    const end = samples.length / SAMPLE_RATE;
    while (offset < end) {
      if (signal.aborted) throw cancellation(signal);
      const window = samples.subarray(Math.round(offset * SAMPLE_RATE));
      if (isSilent(window)) break;
      const duration = window.length / SAMPLE_RATE;
      const hidden = await batches.encode(() => logMel(window), signal);
      const reading = await read(hidden, { ...request, language: language || undefined }, signal);
      language = reading.language;
      if (reading.noSpeechProbability > MIN_NO_SPEECH_PROBABILITY && reading.averageLogprob < MIN_AVERAGE_LOGPROB)
        break;
      const { closed, open } = splitTokens(reading.tokens, duration, vocabulary);
      const resume = resumeSeconds({ closed, open }, reading, window);
      const parts = resume !== undefined || open === undefined ? closed : [...closed, open];
      segments.push(...(await toSegments(parts, reading, { hidden, offset, duration, request })));
      if (resume === undefined) break;
      offset += resume;
    }
    return { language, segments };
  }

  return {
    countTokens: async (text) => vocabulary.encode(text).length,
    transcription: { transcribe },
    [Symbol.asyncDispose]: () => network.release(),
  };
}

/**
 * Where the window has to be read again: at text that was left without an end, or, where a confident reading ended while
 * someone is still speaking, after its last segment. Whisper sometimes does that, and the rest would be lost.
 */
function resumeSeconds(
  { closed, open }: SplitTokens,
  { averageLogprob, stuck }: Reading,
  window: Float32Array,
): number | undefined {
  const last = closed.at(-1);
  if (last === undefined || stuck) return undefined;
  const resume = open?.startSeconds ?? last.endSeconds;
  if (open === undefined && averageLogprob < MIN_CONFIDENT_LOGPROB) return undefined;
  const rest = window.subarray(Math.round(resume * SAMPLE_RATE));
  return resume > 0 && soundingSeconds(rest, window) > MIN_REST_SECONDS ? resume : undefined;
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

function compressionRatio(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length;
}
