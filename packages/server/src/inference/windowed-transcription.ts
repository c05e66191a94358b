import type {
  CallContext,
  TranscribedSegment,
  TranscribedWord,
  TranscriptionRequest,
  TranscriptionResult,
} from '@baobab/core/engine/engine.ts';
import type { MayDecode } from '@baobab/core/ports/file-readers.ts';

/** At most 30 s of mono 16 kHz samples. */
export interface AudioWindow {
  startSeconds: number;
  samples: Float32Array;
}

export interface WindowReader<Source> {
  /** Yields windows in order as decoding proceeds, and returns the length of what was decoded. */
  read(
    source: Source,
    context: CallContext,
    mayDecode?: MayDecode,
  ): AsyncGenerator<AudioWindow, { durationSeconds: number }>;
}

export interface WindowedTranscriptionDependencies<Source> {
  reader: WindowReader<Source>;
  /**
   * Windows of one request sent to the engine at a time. The engine decodes windows in parallel, which makes long files
   * faster.
   */
  windowsAtOnce: number;
}

export interface TranscriptionJob<Source> {
  source: Source;
  /** Runs one window on the requested model. */
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
  options: Omit<TranscriptionRequest, 'samples'>;
  context: CallContext;
  /** Asked before each part of the audio is decoded. Undefined: all of it may be. */
  mayDecode?: MayDecode | undefined;
}

/** A segment with times relative to the whole audio. */
export interface TimedSegment extends TranscribedSegment {
  id: number;
  /** Start of its window. */
  windowStartSeconds: number;
}

export type TranscriptionEvent =
  /** `delta` is what this segment adds to the text. All deltas joined are the final text. */
  | { type: 'segment'; segment: TimedSegment; delta: string }
  | {
      type: 'done';
      text: string;
      /** ISO 639-1. Undefined when no speech was found and no language was given. */
      language: string | undefined;
      durationSeconds: number;
      segments: readonly TimedSegment[];
      /** Empty unless requested. */
      words: readonly TranscribedWord[];
    };

export interface Transcription extends AsyncIterable<TranscriptionEvent> {
  /** Seconds of audio transcribed so far. */
  secondsSoFar(): number;
}

export interface WindowedTranscription<Source> {
  transcribe(job: TranscriptionJob<Source>): Transcription;
}

/**
 * Transcribes audio of any length, window by window and in order. The first window with speech decides the language. The
 * prompt goes to every window, and no window gets the text of the one before: errors do not spread, and windows can run
 * in parallel.
 */
export function createWindowedTranscription<Source>({
  reader,
  windowsAtOnce,
}: WindowedTranscriptionDependencies<Source>): WindowedTranscription<Source> {
  return {
    transcribe(job) {
      let seconds = 0;
      async function* events(): AsyncGenerator<TranscriptionEvent> {
        const segments: TimedSegment[] = [];
        let language = job.options.language;
        let text = '';
        const results = windowResults(job, reader, windowsAtOnce);
        try {
          let next = await results.next();
          for (; !next.done; next = await results.next()) {
            const { window, result } = next.value;
            language ??= result.language || undefined;
            seconds = window.startSeconds + window.samples.length / SAMPLE_RATE;
            for (const part of result.segments) {
              const segment = shift(part, segments.length, window.startSeconds);
              const delta = text === '' ? segment.text.trim() : segment.text.trimEnd();
              segments.push(segment);
              text += delta;
              yield { type: 'segment', segment, delta };
            }
          }
          seconds = next.value.durationSeconds;
          const words = segments.flatMap((segment) => segment.words ?? []);
          yield { type: 'done', text, language, durationSeconds: seconds, segments, words };
        } finally {
          await results.return({ durationSeconds: 0 });
        }
      }
      return { [Symbol.asyncIterator]: events, secondsSoFar: () => seconds };
    },
  };
}

const SAMPLE_RATE = 16_000;

interface WindowResult {
  window: AudioWindow;
  result: TranscriptionResult;
}

/** Yields results in the order of the windows, with a bounded number running. Returning early stops them all. */
async function* windowResults<Source>(
  { source, transcribe, options, context, mayDecode }: TranscriptionJob<Source>,
  reader: WindowReader<Source>,
  windowsAtOnce: number,
): AsyncGenerator<WindowResult, { durationSeconds: number }> {
  const leave = new AbortController();
  const signal = AbortSignal.any([context.signal, leave.signal]);
  const own = { ...context, signal };
  const windows = reader.read(source, own, mayDecode);
  const running: Promise<WindowResult>[] = [];
  let language = options.language;
  const { task, prompt: _, ...choices } = options;
  let isChecked = task !== 'translate' && !Object.values(choices).some(Boolean);

  const start = (window: AudioWindow) => {
    const run = transcribe({ ...options, language, samples: window.samples }, own).then((result) => ({
      window,
      result,
    }));
    // Awaited later: prevents an unhandled rejection until then.
    run.catch(() => undefined);
    running.push(run);
  };
  const finish = async (): Promise<WindowResult> => {
    const finished = (await running.shift()) as WindowResult;
    language ??= finished.result.language || undefined;
    return finished;
  };

  try {
    for (;;) {
      const next = await windows.next();
      if (next.done) {
        while (running.length > 0) yield await finish();
        // What the model refuses, it refuses for silence too.
        if (!isChecked) await transcribe({ ...options, samples: new Float32Array(0) }, own);
        return next.value;
      }
      isChecked = true;
      start(next.value);
      if (running.length >= (language === undefined ? 1 : windowsAtOnce)) yield await finish();
    }
  } finally {
    leave.abort();
    await windows.return({ durationSeconds: 0 });
  }
}

function shift(part: TranscribedSegment, id: number, offset: number): TimedSegment {
  return {
    ...part,
    id,
    windowStartSeconds: offset,
    startSeconds: part.startSeconds + offset,
    endSeconds: part.endSeconds + offset,
    ...(part.words && {
      words: part.words.map((word) => ({
        ...word,
        startSeconds: word.startSeconds + offset,
        endSeconds: word.endSeconds + offset,
      })),
    }),
  };
}
