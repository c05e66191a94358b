import { deflateSync } from 'node:zlib';
import type { TranscriptionRequest } from '@baobab/core/engine/engine.ts';
import type { Tensor } from 'onnxruntime-node';
import type { WindowBatches } from './batches.ts';
import type { Decoded } from './decoding.ts';
import type { Vocabulary } from './vocabulary.ts';

// Thresholds of OpenAI's reference decoder.
const TEMPERATURES = [0, 0.2, 0.4, 0.6, 0.8, 1];
const MAX_COMPRESSION_RATIO = 2.4;
const MIN_AVERAGE_LOGPROB = -1;
const MIN_NO_SPEECH_PROBABILITY = 0.6;

export interface Reading extends Decoded {
  temperature: number;
  compressionRatio: number;
  /** Repeats itself. */
  stuck: boolean;
}

/** Where no temperature passes, the likeliest reading that does not repeat itself is the least bad one. */
const isBetter = (one: Reading, other: Reading) =>
  one.stuck === other.stuck ? one.averageLogprob > other.averageLogprob : other.stuck;

/** The model takes it for silence or noise. */
export const isNoSpeech = ({ noSpeechProbability, averageLogprob }: Reading): boolean =>
  noSpeechProbability > MIN_NO_SPEECH_PROBABILITY && averageLogprob < MIN_AVERAGE_LOGPROB;

export interface ReaderDependencies {
  batches: Pick<WindowBatches, 'decode'>;
  vocabulary: Vocabulary;
  /** Positions of the decoder. */
  contextSize: number;
}

export type Reader = (hidden: Tensor, request: TranscriptionRequest, signal: AbortSignal) => Promise<Reading>;

/** Reads a window at rising temperature until the text is likely and not stuck. */
export function createReader({ batches, vocabulary, contextSize }: ReaderDependencies): Reader {
  const halfContext = contextSize / 2;
  return async (hidden, request, signal) => {
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
  };
}

function compressionRatio(text: string): number {
  const bytes = Buffer.from(text);
  return bytes.length === 0 ? 0 : bytes.length / deflateSync(bytes).length;
}
