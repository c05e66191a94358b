import type {
  CallContext,
  TranscribedSegment,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Tensor } from 'onnxruntime-node';
import { type AlignmentHead, alignTokens } from './alignment.ts';
import type { WindowBatches } from './batches.ts';
import { type LogMel, SAMPLE_RATE } from './log-mel.ts';
import type { Network } from './network.ts';
import type { Vocabulary } from './vocabulary.ts';
import { isNoSpeech, type Reader, type Reading } from './window-reader.ts';
import { wordsOf } from './words.ts';

export const WINDOW_SECONDS = 30;
/** A rest with less sound than this is not read again. */
const MIN_REST_SECONDS = 1;
const MIN_CONFIDENT_LOGPROB = -0.7;

interface TranscriberDependencies {
  network: Network;
  vocabulary: Vocabulary;
  heads: readonly AlignmentHead[];
  batches: Pick<WindowBatches, 'encode'>;
  logMel: LogMel;
  read: Reader;
  /** Those that only know English do not. */
  translates: boolean;
}

interface WindowPlace {
  hidden: Tensor;
  offset: number;
  duration: number;
  request: TranscriptionRequest;
}

/** Transcribes windows of up to 30 s. */
export class Transcriber {
  readonly #dependencies: TranscriberDependencies;

  constructor(dependencies: TranscriberDependencies) {
    this.#dependencies = dependencies;
  }

  async transcribe(request: TranscriptionRequest, { signal }: CallContext): Promise<TranscriptionResult> {
    const { vocabulary, batches, logMel, read, translates } = this.#dependencies;
    const { samples } = request;
    if (request.task === 'translate' && !translates) {
      throw errors.unsupportedParameter(
        ['model'],
        'This model only knows English, so it cannot translate. Use one that knows more languages, such as openai/whisper-base.',
      );
    }
    if (request.language !== undefined && !vocabulary.languages.has(request.language)) {
      throw errors.unsupportedParameter(
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
      if (isNoSpeech(reading)) break;
      const { closed, open } = splitTokens(reading.tokens, duration, vocabulary);
      const resume = resumeSeconds({ closed, open }, reading, window);
      const parts = resume !== undefined || open === undefined ? closed : [...closed, open];
      segments.push(...(await this.#toSegments(parts, reading, { hidden, offset, duration, request })));
      if (resume === undefined) break;
      offset += resume;
    }
    return { language, segments };
  }

  async #toSegments(parts: readonly TokenSegment[], reading: Reading, at: WindowPlace): Promise<TranscribedSegment[]> {
    const { network, vocabulary, heads } = this.#dependencies;
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

const SECONDS_PER_TIMESTAMP = 0.02;

interface TokenSegment {
  startSeconds: number;
  endSeconds: number;
  tokens: readonly number[];
}

interface SplitTokens {
  /** Segments with a start and an end. */
  closed: readonly TokenSegment[];
  /** Text after the last timestamp, where the model left off; it is taken to reach to the end of the window. */
  open?: TokenSegment | undefined;
}

/** Cuts a window's tokens at the timestamps. */
export function splitTokens(tokens: readonly number[], durationSeconds: number, vocabulary: Vocabulary): SplitTokens {
  const { timestampBegin } = vocabulary;
  const closed: TokenSegment[] = [];
  let startSeconds = 0;
  let text: number[] = [];
  for (const token of tokens) {
    if (token < timestampBegin) {
      text.push(token);
      continue;
    }
    const seconds = Math.min((token - timestampBegin) * SECONDS_PER_TIMESTAMP, durationSeconds);
    // A segment that begins after the audio has ended was made up.
    if (text.length > 0 && seconds > startSeconds) closed.push({ startSeconds, endSeconds: seconds, tokens: text });
    text = [];
    startSeconds = seconds;
  }
  return {
    closed,
    open:
      text.length > 0 && startSeconds < durationSeconds
        ? { startSeconds, endSeconds: durationSeconds, tokens: text }
        : undefined,
  };
}

const FRAME_SAMPLES = 480;

/** -65 dBFS: under any speech that was recorded on purpose, above the dither of a 16-bit file. */
const SILENCE_POWER = 10 ** (-65 / 10);
/** -26 dB under the loudest frame: pauses and breath are below, vowels above. */
const SOUNDING_SHARE = 10 ** (-26 / 10);

/** Whether no 30 ms of it are loud enough to be speech. Whisper would make words up for such a window. */
function isSilent(samples: Float32Array): boolean {
  return framePowers(samples).every((power) => power <= SILENCE_POWER);
}

/** How much of a part is about as loud as the whole it is taken from. */
function soundingSeconds(part: Float32Array, whole: Float32Array): number {
  const least = Math.max(SILENCE_POWER, framePowers(whole).reduce((a, b) => Math.max(a, b), 0) * SOUNDING_SHARE);
  return (framePowers(part).filter((power) => power > least).length * FRAME_SAMPLES) / SAMPLE_RATE;
}

function framePowers(samples: Float32Array): number[] {
  return Array.from({ length: Math.ceil(samples.length / FRAME_SAMPLES) }, (_, frame) => {
    const part = samples.subarray(frame * FRAME_SAMPLES, (frame + 1) * FRAME_SAMPLES);
    let sum = 0;
    for (const sample of part) sum += sample * sample;
    return sum / part.length;
  });
}
