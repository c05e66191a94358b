import { randomUUID } from 'node:crypto';
import type {
  CallContext,
  TranscribedSegment,
  TranscribedWord,
  TranscriptionCapability,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Dialect, UpstreamRequest } from './dialects/dialect.ts';
import { cannotKeep } from './failure/failure.ts';
import type { Route } from './routing/router.ts';
import type { Upstream } from './routing/upstream.ts';

interface RemoteTranscriptionResult extends TranscriptionResult {
  servedRegion: string | undefined;
}
export interface RemoteTranscription extends TranscriptionCapability {
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<RemoteTranscriptionResult>;
}

export function createRemoteTranscription(route: Route): RemoteTranscription {
  return {
    async transcribe(request, context) {
      const wav = wavFile(request.samples);
      const [result, upstream] = await route.run(context, async (call) => {
        const sent = transcriptionRequest(request, wav, call.upstream);
        if (request.samples.length === 0) return { language: request.language ?? '', segments: [] };
        const { json } = await call.fetchJson({ ...sent, field: ['file'] });
        const transcription = readTranscription(json, request);
        if (transcription === undefined) throw call.malformed('the answer is not a transcription');
        return transcription;
      });
      return { ...result, servedRegion: upstream.region };
    },
  };
}

function transcriptionRequest(
  request: TranscriptionRequest,
  wav: Buffer,
  { dialect, model }: Upstream,
): Pick<UpstreamRequest, 'base' | 'route' | 'body' | 'contentType'> {
  // At temperature 0 and without words, nothing is lost.
  const unkept = dialect.unkeptInTranscription.find((name) => request[name]);
  if (unkept !== undefined) throw cannotKeep([unkept]);
  if (request.task === 'translate' && !dialect.translatesAudio) {
    throw errors.unsupportedParameter(
      ['model'],
      'The server that runs this model cannot translate audio. Transcribe it, or use another model.',
    );
  }
  return {
    base: 'api',
    route: request.task === 'translate' ? '/audio/translations' : '/audio/transcriptions',
    ...multipart(wav, fields(request, model, dialect)),
  };
}

function fields(request: TranscriptionRequest, model: string, { transcriptionFormat }: Dialect): [string, string][] {
  const list: [string, string][] = [
    ['model', model],
    ['response_format', transcriptionFormat],
  ];
  const translates = request.task === 'translate';
  if (transcriptionFormat === 'verbose_json' && !translates) list.push(['timestamp_granularities[]', 'segment']);
  if (request.wordTimestamps === true) list.push(['timestamp_granularities[]', 'word']);
  if (request.language !== undefined && !translates) list.push(['language', request.language]);
  if (request.prompt) list.push(['prompt', request.prompt]);
  if (request.temperature !== undefined) list.push(['temperature', String(request.temperature)]);
  return list;
}

/** Written by hand, so that the body is one buffer that a second upstream can be sent too. */
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
function readTranscription(wire: unknown, request: TranscriptionRequest): TranscriptionResult | undefined {
  if (!isTranscription(wire)) return undefined;
  const whole: WireSegment = { start: 0, end: request.samples.length / SAMPLE_RATE, text: wire.text ?? '' };
  // Some upstreams send a text without segments.
  const segments = wire.segments?.length ? wire.segments : whole.text === '' ? [] : [whole];
  const hasWords = wire.words?.length || segments.some((segment) => segment.words?.length);
  if (request.wordTimestamps && segments.length > 0 && !hasWords) throw cannotKeep(['wordTimestamps']);
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

let codes: Map<string, string> | undefined;

/** OpenAI answers with the name of the language (`english`), other servers with its code. */
export function languageCode(language: string | null | undefined): string | undefined {
  if (!language) return undefined;
  const given = language.toLowerCase();
  if (/^[a-z]{2}$/.test(given)) return given;
  codes ??= codesByName();
  return codes.get(given);
}

/** Intl maps codes to English names, but not back. */
function codesByName(): Map<string, string> {
  const names = new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' });
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const found = new Map<string, string>();
  for (const first of letters) {
    for (const second of letters) {
      const name = names.of(first + second)?.toLowerCase();
      if (name !== undefined && !found.has(name)) found.set(name, first + second);
    }
  }
  return found;
}

const SAMPLE_RATE = 16_000;
const HEADER_BYTES = 44;

/** Mono 16-bit PCM. */
export function wavFile(samples: Float32Array): Buffer {
  const dataBytes = samples.length * 2;
  const file = Buffer.alloc(HEADER_BYTES + dataBytes);
  file.write('RIFF', 0, 'latin1');
  file.writeUInt32LE(HEADER_BYTES - 8 + dataBytes, 4);
  file.write('WAVEfmt ', 8, 'latin1');
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(SAMPLE_RATE, 24);
  file.writeUInt32LE(SAMPLE_RATE * 2, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write('data', 36, 'latin1');
  file.writeUInt32LE(dataBytes, 40);
  for (let i = 0; i < samples.length; i++) {
    const sample = Math.max(-1, Math.min(1, samples[i] ?? 0));
    file.writeInt16LE(Math.round(sample * 32_767), HEADER_BYTES + i * 2);
  }
  return file;
}
