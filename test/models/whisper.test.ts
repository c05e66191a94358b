import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EngineModel, TranscriptionRequest, TranscriptionResult } from '../../packages/core/src/engine/engine.ts';
import { callContext } from '../../packages/core/src/engine/testing/call-context.ts';
import { decodeAudio } from '../../packages/engines/src/audio/reader.ts';
import { cutWindows } from '../../packages/engines/src/audio/windows.ts';
import { load } from '../../packages/engines/src/onnx/load.ts';
import { createWindowedTranscription } from '../../packages/server/src/inference/windowed-transcription.ts';
import { weights } from './weights.ts';

const CLIPS = join(import.meta.dirname, '../fixtures/audio');
const TEXTS = {
  'meeting.ogg': 'Good morning everyone. Thank you for coming to the meeting today.',
  'weather.ogg': 'Tomorrow morning will be cold and rainy in the north. In the south, the sun will shine all day.',
  'garden.ogg': 'The children are playing football in the garden, and their mother is reading a book.',
};

/** Each clip is decoded once. */
const decoded = new Map<string, Promise<Float32Array>>();

function samplesOf(name: string): Promise<Float32Array> {
  const decode = async () =>
    joined(await Array.fromAsync(decodeAudio(join(CLIPS, name), { signal: new AbortController().signal })));
  const samples = decoded.get(name) ?? decode();
  decoded.set(name, samples);
  return samples;
}

const joined = (parts: readonly Float32Array[]) => Float32Array.from(parts.flatMap((part) => [...part]));

const textOf = (result: TranscriptionResult) =>
  result.segments
    .map((segment) => segment.text)
    .join('')
    .trim();
const wordsOf = (text: string) => text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];

/** Edit distance in words, as a share of the words that were said. */
function wordErrorRate(said: string, heard: string): number {
  const [a, b] = [wordsOf(said), wordsOf(heard)];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (const [i, word] of a.entries()) {
    const row = [i + 1];
    for (const [j, other] of b.entries()) {
      row.push(Math.min((row[j] ?? 0) + 1, (previous[j + 1] ?? 0) + 1, (previous[j] ?? 0) + (word === other ? 0 : 1)));
    }
    previous = row;
  }
  return (previous.at(-1) ?? 0) / a.length;
}

const TINY = 'openai/whisper-tiny';
const BASE = 'openai/whisper-base';

/** Each model is loaded once. */
const models = new Map<string, Promise<EngineModel>>();
afterAll(async () => {
  for (const model of models.values()) await (await model)[Symbol.asyncDispose]();
});

async function open(slug: string): Promise<EngineModel> {
  return load({ ...(await weights(slug)), parallelSequences: 4 });
}

function loaded(slug: string) {
  let model: EngineModel;
  beforeAll(async () => {
    const loading = models.get(slug) ?? open(slug);
    models.set(slug, loading);
    model = await loading;
  });
  return (request: TranscriptionRequest, signal?: AbortSignal) => {
    if (!model.transcription) throw new Error(`${slug} does not transcribe`);
    return model.transcription.transcribe(request, callContext(signal));
  };
}

/** Measured with the q8 weights on these clips; one word more than measured is a failure. */
describe.each([
  { slug: TINY, most: 0.03 },
  { slug: BASE, most: 0 },
  { slug: 'openai/whisper-small', most: 0 },
])('$slug', ({ slug, most }) => {
  const transcribe = loaded(slug);

  it(`understands the English clips with a word error rate of at most ${most}`, async () => {
    const said = Object.values(TEXTS).join(' ');
    const results = await Promise.all(
      Object.keys(TEXTS).map(async (name) => transcribe({ samples: await samplesOf(name) })),
    );
    expect(results.map((result) => result.language)).toEqual(['en', 'en', 'en']);
    expect(wordErrorRate(said, results.map(textOf).join(' '))).toBeLessThanOrEqual(most);
  });

  it('gives nothing for silence', async () => {
    expect(await transcribe({ samples: new Float32Array(16_000 * 8) })).toEqual({ language: '', segments: [] });
  });
});

describe('whisper', () => {
  const transcribe = loaded(BASE);
  /** For tests that do not depend on accuracy. */
  const transcribeFast = loaded(TINY);

  it('detects Spanish and writes it', async () => {
    const result = await transcribe({ samples: await samplesOf('reunion.ogg') });
    expect(result.language).toBe('es');
    expect(textOf(result)).toBe('Buenos días a todos. Muchas gracias por venir a la reunión de hoy.');
  });

  it('translates Spanish into English', async () => {
    const result = await transcribe({ samples: await samplesOf('reunion.ogg'), task: 'translate' });
    expect(result.language).toBe('es');
    expect(textOf(result).toLowerCase()).toContain('thank you very much for coming to the meeting');
  });

  it('takes the language that is given', async () => {
    const result = await transcribeFast({ samples: await samplesOf('meeting.ogg'), language: 'en' });
    expect(result.language).toBe('en');
    expect(wordErrorRate(TEXTS['meeting.ogg'], textOf(result))).toBe(0);
  });

  it('refuses a language it does not know', async () => {
    await expect(transcribeFast({ samples: new Float32Array(16_000), language: 'xx' })).rejects.toMatchObject({
      code: 'unsupported_parameter',
      param: 'language',
    });
  });

  it('takes the spelling from the prompt', async () => {
    const samples = await samplesOf('apples.wav');
    const plain = await transcribe({ samples, language: 'en' });
    const prompted = await transcribe({
      samples,
      language: 'en',
      prompt: 'We need 4 pears, 3 plums and 9 figs. I have 12.',
    });
    expect(textOf(plain)).toContain('seven apples');
    expect(textOf(prompted)).toContain('7 apples');
  });

  it('takes the end of a prompt that is longer than the model reads', async () => {
    const samples = await samplesOf('meeting.ogg');
    const result = await transcribe({
      samples,
      language: 'en',
      prompt: 'The meeting was long and everyone talked. '.repeat(60),
    });
    expect(wordErrorRate(TEXTS['meeting.ogg'], textOf(result))).toBeLessThanOrEqual(0.2);
  });

  it('times the words in order, inside the audio and where they are spoken', async () => {
    const [meeting, garden] = await Promise.all([samplesOf('meeting.ogg'), samplesOf('garden.ogg')]);
    const { segments } = await transcribe({ samples: joined([meeting, garden]), wordTimestamps: true });
    const words = segments.flatMap((segment) => segment.words ?? []);
    expect(words.map(({ word }) => word).join(' ')).toBe(segments.map((segment) => segment.text.trim()).join(' '));
    const times = words.flatMap(({ startSeconds, endSeconds }) => [startSeconds, endSeconds]);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.at(-1)).toBeLessThanOrEqual((meeting.length + garden.length) / 16_000);
    // Every clip has 0.4 s of silence before the speech and 0.6 s after it.
    const border = meeting.length / 16_000;
    const last = words.find(({ word }) => word.startsWith('today'));
    const first = words.find(({ word, startSeconds }) => word === 'children' && startSeconds > border);
    expect(Math.abs((last?.endSeconds ?? 0) - (border - 0.6))).toBeLessThan(0.5);
    expect(Math.abs((first?.startSeconds ?? 0) - (border + 0.6))).toBeLessThan(0.5);
  });

  it('gives the same text alone and in a batch', async () => {
    const clips = await Promise.all(['weather.ogg', 'garden.ogg', 'reunion.ogg', 'apples.mp3'].map(samplesOf));
    const together = await Promise.all(clips.map((samples) => transcribe({ samples })));
    for (const [i, samples] of clips.entries()) {
      expect(textOf(await transcribe({ samples }))).toBe(textOf(together[i] ?? { language: '', segments: [] }));
    }
  });

  it('stops on noise', async () => {
    let state = 1;
    const noise = Float32Array.from({ length: 16_000 * 20 }, () => {
      state = (state * 48_271) % 2_147_483_647;
      return (state / 2_147_483_647 - 0.5) * 0.3;
    });
    const { segments } = await transcribeFast({ samples: noise });
    expect(segments.flatMap((segment) => segment.tokens).length).toBeLessThanOrEqual(224);
  });

  it('stops within a token when it is aborted and continues the others', async () => {
    const abort = new AbortController();
    const samples = await samplesOf('garden.ogg');
    const left = transcribeFast({ samples }, abort.signal);
    const stays = transcribeFast({ samples });
    abort.abort();
    await expect(left).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(wordErrorRate(TEXTS['garden.ogg'], textOf(await stays))).toBe(0);
  });

  it('keeps the times right over windows of a long file', async () => {
    const pieces = await Promise.all(['meeting.ogg', 'garden.ogg', 'weather.ogg'].map(samplesOf));
    const repeated = [...pieces, ...pieces, ...pieces];
    const starts = repeated.map((_, i) => repeated.slice(0, i).reduce((sum, piece) => sum + piece.length, 0) / 16_000);
    const whole = joined(repeated);
    const reader = { read: () => cutWindows(Readable.from([whole])) };
    const service = createWindowedTranscription<undefined>({ reader, windowsAtOnce: 4 });
    const events = await Array.fromAsync(
      service.transcribe({
        source: undefined,
        transcribe: (request, { signal }) => transcribe(request, signal),
        options: {},
        context: callContext(),
      }),
    );
    const done = events.at(-1);
    if (done?.type !== 'done') throw new Error('no end');
    const said = Object.values({ a: TEXTS['meeting.ogg'], b: TEXTS['garden.ogg'], c: TEXTS['weather.ogg'] }).join(' ');
    expect(wordErrorRate([said, said, said].join(' '), done.text)).toBeLessThanOrEqual(0.02);
    const mornings = done.segments.filter((segment) => segment.text.includes('Good morning'));
    expect(mornings).toHaveLength(3);
    for (const [i, segment] of mornings.entries()) {
      expect(Math.abs(segment.startSeconds - (starts[i * 3] ?? 0))).toBeLessThan(1.2);
    }
  });
});
