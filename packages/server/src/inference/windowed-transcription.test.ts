import type { TranscribedSegment, TranscriptionRequest, TranscriptionResult } from '@baobab/core/engine/engine.ts';
import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { describe, expect, it } from 'vitest';
import {
  createWindowedTranscription,
  type TranscriptionEvent,
  type TranscriptionJob,
} from './windowed-transcription.ts';

const segment = (text: string, startSeconds: number, endSeconds: number): TranscribedSegment => ({
  text,
  startSeconds,
  endSeconds,
  tokens: [],
  temperature: 0,
  averageLogprob: -0.1,
  compressionRatio: 1,
  noSpeechProbability: 0,
  words: [{ word: text.trim(), startSeconds, endSeconds }],
});

/** `count` windows of 20 s. Records how many were read and whether reading was stopped. */
function createReader(count: number, durationSeconds = count * 20 - 5) {
  const seen = { read: 0, stopped: false };
  async function* read() {
    try {
      for (let i = 0; i < count; i++) {
        seen.read++;
        yield { startSeconds: i * 20, samples: new Float32Array(20 * 16_000).fill(i) };
      }
      return { durationSeconds };
    } finally {
      seen.stopped = true;
    }
  }
  return { seen, reader: { read } };
}

const windowOf = (request: TranscriptionRequest) => request.samples[0] ?? -1;
const answer = (request: TranscriptionRequest): TranscriptionResult => ({
  language: 'sw',
  segments: [segment(` window ${windowOf(request)}`, 1, 3)],
});

function start(
  count: number,
  transcribe: TranscriptionJob<undefined>['transcribe'],
  { options = {}, signal = new AbortController().signal, windowsAtOnce = 2 } = {},
) {
  const { reader, seen } = createReader(count);
  const service = createWindowedTranscription<undefined>({ reader, windowsAtOnce });
  return {
    seen,
    transcription: service.transcribe({ source: undefined, transcribe, options, context: callContext(signal) }),
  };
}

async function collect(events: AsyncIterable<TranscriptionEvent>) {
  const all: TranscriptionEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('transcribe', () => {
  it('gives segments with the times of the whole audio, then the text, words and duration', async () => {
    const { transcription } = start(3, async (request) => answer(request));
    const events = await collect(transcription);
    const done = events.at(-1);
    expect(events.map((event) => event.type)).toEqual(['segment', 'segment', 'segment', 'done']);
    expect(done).toMatchObject({ text: 'window 0 window 1 window 2', language: 'sw', durationSeconds: 55 });
    expect(
      done?.type === 'done' && done.segments.map(({ id, startSeconds, endSeconds }) => [id, startSeconds, endSeconds]),
    ).toEqual([
      [0, 1, 3],
      [1, 21, 23],
      [2, 41, 43],
    ]);
    expect(done?.type === 'done' && done.words.at(-1)).toEqual({ word: 'window 2', startSeconds: 41, endSeconds: 43 });
    expect(transcription.secondsSoFar()).toBe(55);
  });

  it('makes the joined deltas equal to the text', async () => {
    const events = await collect(start(4, async (request) => answer(request)).transcription);
    const deltas = events.flatMap((event) => (event.type === 'segment' ? [event.delta] : []));
    expect(events.at(-1)).toMatchObject({ text: deltas.join('') });
  });

  it('lets the model check the options of silent audio', async () => {
    const asked: TranscriptionRequest[] = [];
    const { transcription } = start(
      0,
      async (request) => {
        asked.push(request);
        throw new Error('an unknown language');
      },
      { options: { language: 'xx' } },
    );
    await expect(collect(transcription)).rejects.toThrow('an unknown language');
    expect(asked).toEqual([{ language: 'xx', samples: new Float32Array(0) }]);
    expect(transcription.secondsSoFar()).toBe(0);
  });

  it('settles the language with the first window that has one and keeps it', async () => {
    const asked: (string | undefined)[] = [];
    const { transcription } = start(4, async (request) => {
      asked.push(request.language);
      return windowOf(request) === 0 ? { language: '', segments: [] } : answer(request);
    });
    await collect(transcription);
    expect(asked).toEqual([undefined, undefined, 'sw', 'sw']);
  });

  it('keeps the order and the bound when windows run side by side', async () => {
    let running = 0;
    let most = 0;
    const finish: (() => void)[] = [];
    const { transcription } = start(
      5,
      async (request) => {
        most = Math.max(most, ++running);
        // The first of a pair ends only after the second has begun.
        if (windowOf(request) % 2 === 0 && windowOf(request) < 4)
          await new Promise<void>((resolve) => finish.push(resolve));
        else finish.shift()?.();
        running--;
        return answer(request);
      },
      { options: { language: 'sw' } },
    );
    const events = await collect(transcription);
    expect(events.at(-1)).toMatchObject({ text: 'window 0 window 1 window 2 window 3 window 4' });
    expect(most).toBe(2);
  });

  it('reads no further than the windows under way', async () => {
    const { transcription, seen } = start(100, async (request) => answer(request), { options: { language: 'sw' } });
    const iterator = transcription[Symbol.asyncIterator]();
    await iterator.next();
    expect(seen.read).toBe(2);
    await iterator.return?.();
    expect(seen.stopped).toBe(true);
  });

  it('stops the other windows and the reading when one fails', async () => {
    const signals: AbortSignal[] = [];
    const { transcription, seen } = start(
      4,
      async (request, { signal }) => {
        signals.push(signal);
        if (windowOf(request) === 0) throw new Error('engine gone');
        return answer(request);
      },
      { options: { language: 'sw' } },
    );
    await expect(collect(transcription)).rejects.toThrow('engine gone');
    expect(signals.map((signal) => signal.aborted)).toEqual([true, true]);
    expect(seen.stopped).toBe(true);
  });

  it('passes the signal on', async () => {
    const client = new AbortController();
    const { transcription } = start(
      2,
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          client.abort(new Error('client left'));
        }),
      { signal: client.signal },
    );
    await expect(collect(transcription)).rejects.toThrow('client left');
  });

  it('returns an empty text for audio without a window', async () => {
    const { reader } = createReader(0, 12);
    const service = createWindowedTranscription<undefined>({ reader, windowsAtOnce: 2 });
    const transcribe = () => Promise.reject(new Error('not reached'));
    const events = await collect(
      service.transcribe({ source: undefined, transcribe, options: {}, context: callContext() }),
    );
    expect(events).toEqual([
      { type: 'done', text: '', language: undefined, durationSeconds: 12, segments: [], words: [] },
    ]);
  });
});
