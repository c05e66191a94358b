import { randomUUID } from 'node:crypto';
import type {
  CallContext,
  TranscribedSegment,
  TranscribedWord,
  TranscriptionCapability,
  TranscriptionRequest,
  TranscriptionResult,
} from '../../engine.ts';
import { malformedAnswer } from '../failure.ts';
import { type RemoteScope, scopeAt } from '../remote-scope.ts';
import { toApiError } from '../routing/router.ts';
import { languageCode } from './language-code.ts';
import { SAMPLE_RATE, wavFile } from './wav.ts';

export interface RemoteTranscriptionResult extends TranscriptionResult {
  servedRegion: string | undefined;
}
export interface RemoteTranscription extends TranscriptionCapability {
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<RemoteTranscriptionResult>;
}

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

export function createRemoteTranscription(remote: RemoteScope): RemoteTranscription {
  return {
    async transcribe(request, context) {
      const wav = wavFile(request.samples);
      try {
        const [result, lease] = await remote.router.call(context, remote.region, async (lent) => {
          const scope = scopeAt(remote, lent, 'file');
          const { json } = await lent.sendForJson({
            base: 'api',
            route: request.task === 'translate' ? '/audio/translations' : '/audio/transcriptions',
            ...multipart(wav, fields(request, lent.upstream.model)),
            scope,
          });
          if (!isTranscription(json)) throw malformedAnswer('this is not a transcription', scope);
          return read(json, request);
        });
        return { ...result, servedRegion: lease.upstream.region };
      } catch (error) {
        throw toApiError(error);
      }
    },
  };
}

function fields(request: TranscriptionRequest, model: string): [string, string][] {
  const list: [string, string][] = [
    ['model', model],
    ['response_format', 'verbose_json'],
    ['timestamp_granularities[]', 'segment'],
  ];
  if (request.wordTimestamps === true) list.push(['timestamp_granularities[]', 'word']);
  if (request.language !== undefined && request.task !== 'translate') list.push(['language', request.language]);
  if (request.prompt) list.push(['prompt', request.prompt]);
  if (request.temperature !== undefined) list.push(['temperature', String(request.temperature)]);
  return list;
}

/** Written by hand, so that the body is one buffer that a second address can be sent as well. */
function multipart(wav: Buffer, values: readonly [string, string][]): { body: Buffer; contentType: string } {
  const boundary = `baobab-${randomUUID()}`;
  const head = values.map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  head.push(
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="audio.wav"\r\nContent-Type: audio/wav\r\n\r\n`,
  );
  return {
    body: Buffer.concat([Buffer.from(head.join('')), wav, Buffer.from(`\r\n--${boundary}--\r\n`)]),
    contentType: `multipart/form-data; boundary=${boundary}`,
  };
}

function isTranscription(json: unknown): json is WireTranscription {
  return typeof json === 'object' && json !== null && ('text' in json || 'segments' in json);
}

function read(wire: WireTranscription, request: TranscriptionRequest): TranscriptionResult {
  const whole: WireSegment = { start: 0, end: request.samples.length / SAMPLE_RATE, text: wire.text ?? '' };
  // An upstream without segments still has a text.
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
