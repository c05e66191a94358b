import type {
  CallContext,
  TranscribedSegment,
  TranscribedWord,
  TranscriptionRequest,
  TranscriptionResult,
} from '../../engines/engine.ts';

/** At most 30 s of mono 16 kHz samples and where they begin. */
export interface AudioWindow {
  startSeconds: number;
  samples: Float32Array;
}

export interface WindowReader<Source> {
  /** Windows in order, as decoding proceeds; at the end, how long the audio is. */
  read(source: Source, signal: AbortSignal): AsyncGenerator<AudioWindow, { durationSeconds: number }>;
}

export interface WindowedTranscriptionDependencies<Source> {
  reader: WindowReader<Source>;
  /**
   * Windows of one request that the engine may have at a time. The engine decodes waiting windows side by side, so a long
   * file gains from several.
   */
  windowsAtOnce: number;
}

export interface TranscriptionJob<Source> {
  source: Source;
  /** Runs one window on the model that was asked for. */
  transcribe(request: TranscriptionRequest, context: CallContext): Promise<TranscriptionResult>;
  options: Omit<TranscriptionRequest, 'samples'>;
  context: CallContext;
}

/** A segment with the times of the whole audio. */
export interface TimedSegment extends TranscribedSegment {
  id: number;
  /** Where its window begins. */
  windowStartSeconds: number;
}

export type TranscriptionEvent =
  /** `delta` is what this segment adds to the text: all of them joined are the text of the end. */
  | { type: 'segment'; segment: TimedSegment; delta: string }
  | {
      type: 'done';
      text: string;
      /** ISO 639-1; undefined when nothing was heard and no language was given. */
      language: string | undefined;
      durationSeconds: number;
      segments: readonly TimedSegment[];
      /** Empty unless they were asked for. */
      words: readonly TranscribedWord[];
    };

export interface Transcription extends AsyncIterable<TranscriptionEvent> {
  /** Seconds of audio that have been transcribed until now. */
  secondsSoFar(): number;
}

export interface WindowedTranscription<Source> {
  transcribe(job: TranscriptionJob<Source>): Transcription;
}

/**
 * Transcribes audio of any length, window by window and in order. The language is settled by the first window with speech. The
 * prompt goes to every window, and no window sees the text of the one before: a mistake does not spread, and windows can run
 * side by side.
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

/** Results in the order of the windows, with a bounded number under way; leaving early stops them all. */
async function* windowResults<Source>(
  { source, transcribe, options, context }: TranscriptionJob<Source>,
  reader: WindowReader<Source>,
  windowsAtOnce: number,
): AsyncGenerator<WindowResult, { durationSeconds: number }> {
  const leave = new AbortController();
  const signal = AbortSignal.any([context.signal, leave.signal]);
  const windows = reader.read(source, signal);
  const running: Promise<WindowResult>[] = [];
  let language = options.language;

  const start = (window: AudioWindow) => {
    const run = transcribe({ ...options, language, samples: window.samples }, { ...context, signal }).then(
      (result) => ({
        window,
        result,
      }),
    );
    // It is awaited in its turn; until then a failure must not count as unhandled.
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
        return next.value;
      }
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
