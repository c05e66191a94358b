import type { TranscriptionDone } from '../../../inference/transcriptions.ts';
import type { TranscriptionBody } from './schema.ts';
import { hundredths, toSrt, toVtt } from './subtitles.ts';

/** Wire shapes of transcripts. */

type Done = TranscriptionDone & { billedSeconds: number };

const languageNames = new Intl.DisplayNames(['en'], { type: 'language' });

/** OpenAI's clients expect the English name here: `swahili`. */
const languageName = (code: string | undefined): string =>
  code === undefined ? 'unknown' : (languageNames.of(code) ?? code).toLowerCase();

export const durationUsage = (done: Done) => ({ type: 'duration' as const, seconds: done.billedSeconds });

function verbose(done: Done, granularities: readonly string[]) {
  return {
    task: 'transcribe',
    language: languageName(done.language),
    duration: Math.round(done.durationSeconds * 1000) / 1000,
    text: done.text,
    ...(granularities.includes('segment') || granularities.length === 0
      ? {
          segments: done.segments.map((segment) => ({
            id: segment.id,
            seek: Math.round(segment.windowStartSeconds * 100),
            start: hundredths(segment.startSeconds) / 100,
            end: hundredths(segment.endSeconds) / 100,
            text: segment.text,
            tokens: [...segment.tokens],
            temperature: segment.temperature,
            avg_logprob: segment.averageLogprob,
            compression_ratio: segment.compressionRatio,
            no_speech_prob: segment.noSpeechProbability,
          })),
        }
      : {}),
    ...(granularities.includes('word')
      ? {
          words: done.words.map(({ word, startSeconds, endSeconds }) => ({
            word,
            start: hundredths(startSeconds) / 100,
            end: hundredths(endSeconds) / 100,
          })),
        }
      : {}),
    usage: durationUsage(done),
  };
}

export interface TranscriptAnswer {
  type: string;
  body: string;
}

export function transcriptAnswer(done: Done, request: TranscriptionBody): TranscriptAnswer {
  const json = (value: unknown) => ({ type: 'application/json; charset=utf-8', body: JSON.stringify(value) });
  const text = (body: string) => ({ type: 'text/plain; charset=utf-8', body });
  switch (request.response_format) {
    case 'text':
      return text(`${done.text}\n`);
    case 'srt':
      return text(toSrt(done.segments));
    case 'vtt':
      return { type: 'text/vtt; charset=utf-8', body: toVtt(done.segments) };
    case 'verbose_json':
      return json(verbose(done, request.timestamp_granularities ?? []));
    default:
      return json({ text: done.text, usage: durationUsage(done) });
  }
}
