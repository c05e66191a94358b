import type {
  TranscribedSegment,
  TranscribedWord,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import { languageCode } from './language-code.ts';
import { SAMPLE_RATE } from './wav.ts';

interface WireTranscription {
  language?: string | null;
  text?: string;
  segments?: WireSegment[] | null;
  words?: WireWord[] | null;
}
interface WireSegment {
  start: number;
  end: number;
  text: string;
  tokens?: number[] | null;
  temperature?: number | null;
  avg_logprob?: number | null;
  compression_ratio?: number | null;
  no_speech_prob?: number | null;
  words?: WireWord[] | null;
}
interface WireWord {
  word: string;
  start: number;
  end: number;
}

const isTranscription = (json: unknown): json is WireTranscription =>
  typeof json === 'object' && json !== null && ('text' in json || 'segments' in json);

/** Undefined if this is not a transcription. */
export function readTranscription(wire: unknown, request: TranscriptionRequest): TranscriptionResult | undefined {
  if (!isTranscription(wire)) return undefined;
  const whole: WireSegment = { start: 0, end: request.samples.length / SAMPLE_RATE, text: wire.text ?? '' };
  // Some upstreams send a text without segments.
  const segments = wire.segments?.length ? wire.segments : whole.text === '' ? [] : [whole];
  const words = (wire.words ?? []).map(readWord);
  return {
    language: languageCode(wire.language) ?? request.language ?? 'en',
    segments: segments.map((segment, i) => {
      const isLast = i === segments.length - 1;
      return readSegment(segment, request, () =>
        words.filter(
          (word) => word.startSeconds >= (i === 0 ? 0 : segment.start) && (isLast || word.startSeconds < segment.end),
        ),
      );
    }),
  };
}

function readSegment(
  segment: WireSegment,
  request: TranscriptionRequest,
  wordsInside: () => TranscribedWord[],
): TranscribedSegment {
  return {
    startSeconds: segment.start,
    endSeconds: segment.end,
    text: segment.text,
    tokens: segment.tokens ?? [],
    temperature: segment.temperature ?? request.temperature ?? 0,
    averageLogprob: segment.avg_logprob ?? 0,
    compressionRatio: segment.compression_ratio ?? 1,
    noSpeechProbability: segment.no_speech_prob ?? 0,
    words: request.wordTimestamps === true ? (segment.words?.map(readWord) ?? wordsInside()) : undefined,
  };
}

const readWord = ({ word, start, end }: WireWord): TranscribedWord => ({ word, startSeconds: start, endSeconds: end });
