import type { BilledTranscription } from '../../../inference/transcriptions.ts';
import { stoppedByToWire } from '../../generation/choices.ts';
import type { TranscriptionBody } from './schema.ts';

/** Subtitles in the SubRip and WebVTT formats. */

/** Seconds to hundredths. Models tell times in steps of 0.02 s; what the offset of a window adds behind that means nothing. */
const hundredths = (seconds: number): number => Math.round(seconds * 100);

interface Cue {
  startSeconds: number;
  endSeconds: number;
  text: string;
}

/** SubRip: numbered cues, a comma before the milliseconds, a blank line after each. */
export function toSrt(cues: readonly Cue[]): string {
  return cues
    .map(
      (cue, index) =>
        `${index + 1}\n${timecode(cue.startSeconds, ',')} --> ${timecode(cue.endSeconds, ',')}\n${oneParagraph(cue.text)}\n\n`,
    )
    .join('');
}

/** WebVTT: a header, a dot before the milliseconds, and escaped markup. */
export function toVtt(cues: readonly Cue[]): string {
  const body = cues.map(
    (cue) =>
      `${timecode(cue.startSeconds, '.')} --> ${timecode(cue.endSeconds, '.')}\n${escapeVtt(oneParagraph(cue.text))}\n\n`,
  );
  return `WEBVTT\n\n${body.join('')}`;
}

function timecode(seconds: number, separator: ',' | '.'): string {
  const milliseconds = Math.max(0, hundredths(seconds) * 10);
  const pad = (value: number, width = 2) => String(Math.floor(value)).padStart(width, '0');
  const clock = [milliseconds / 3_600_000, (milliseconds / 60_000) % 60, (milliseconds / 1000) % 60].map((value) =>
    pad(value),
  );
  return `${clock.join(':')}${separator}${pad(milliseconds % 1000, 3)}`;
}

/** A blank line would end the cue. */
const oneParagraph = (text: string) => text.trim().replace(/\s*[\r\n]+\s*/g, '\n');

/** Also escapes `-->`, which would begin a new cue. */
const escapeVtt = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Wire shapes of transcripts. */

let languageNames: Intl.DisplayNames | undefined;

/** OpenAI's clients expect the English name here: `swahili`. */
function languageName(code: string | undefined): string {
  if (code === undefined) return 'unknown';
  // Not at start: reading all names takes Node longer than loading most modules.
  languageNames ??= new Intl.DisplayNames(['en'], { type: 'language' });
  return (languageNames.of(code) ?? code).toLowerCase();
}

export const durationUsage = (done: BilledTranscription) => ({
  type: 'duration' as const,
  seconds: done.billedSeconds,
});

type Task = 'transcribe' | 'translate';

function verbose(done: BilledTranscription, granularities: readonly string[], task: Task) {
  return {
    task,
    // That of the text.
    language: task === 'translate' ? 'english' : languageName(done.language),
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
    ...stoppedByToWire(done),
    usage: durationUsage(done),
  };
}

export interface TranscriptAnswer {
  type: string;
  body: string;
}

export function transcriptAnswer(
  done: BilledTranscription,
  request: TranscriptionBody,
  task: Task = 'transcribe',
): TranscriptAnswer {
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
      return json(verbose(done, request.timestamp_granularities ?? [], task));
    default:
      return json({ text: done.text, ...stoppedByToWire(done), usage: durationUsage(done) });
  }
}
