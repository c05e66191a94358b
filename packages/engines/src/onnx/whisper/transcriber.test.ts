import { callContext } from '@baobab/core/engine/testing/call-context.ts';
import { describe, expect, it } from 'vitest';
import { splitTokens, Transcriber } from './transcriber.ts';
import type { Vocabulary } from './vocabulary.ts';

const TIME = 100;
const at = (seconds: number) => TIME + Math.round(seconds / 0.02);
const split = (tokens: readonly number[], duration = 20) =>
  splitTokens(tokens, duration, { timestampBegin: TIME } as Vocabulary);

describe('splitTokens', () => {
  it('cuts at pairs of timestamps', () => {
    expect(split([at(0), 1, 2, at(2.5), at(3), 3, at(4)])).toEqual({
      closed: [
        { startSeconds: 0, endSeconds: 2.5, tokens: [1, 2] },
        { startSeconds: 3, endSeconds: 4, tokens: [3] },
      ],
      open: undefined,
    });
  });

  it('lets text without an end reach to the end of the window', () => {
    expect(split([at(0), 1, at(2), at(2), 5, 6])).toEqual({
      closed: [{ startSeconds: 0, endSeconds: 2, tokens: [1] }],
      open: { startSeconds: 2, endSeconds: 20, tokens: [5, 6] },
    });
  });

  it('ends with the audio and drops what is said to come after it', () => {
    expect(split([at(0), 1, at(7), at(7), 2, at(9), at(9), 3], 5)).toEqual({
      closed: [{ startSeconds: 0, endSeconds: 5, tokens: [1] }],
      open: undefined,
    });
  });
});

it('does not translate with a model that only knows English', async () => {
  const dependencies = { translates: false } as ConstructorParameters<typeof Transcriber>[0];
  const request = { samples: new Float32Array(16_000), task: 'translate' as const };
  await expect(new Transcriber(dependencies).transcribe(request, callContext())).rejects.toMatchObject({
    status: 422,
    code: 'unsupported_parameter',
    param: 'model',
    message: expect.stringContaining('only knows English'),
  });
});

it('refuses a language that it does not know, also of no samples', async () => {
  const dependencies = { vocabulary: { languages: new Map([['en', 1]]) } } as unknown as ConstructorParameters<
    typeof Transcriber
  >[0];
  const transcribe = (language: string) =>
    new Transcriber(dependencies).transcribe({ samples: new Float32Array(0), language }, callContext());
  await expect(transcribe('xx')).rejects.toMatchObject({ code: 'unsupported_parameter', param: 'language' });
  expect(await transcribe('en')).toEqual({ language: 'en', segments: [] });
});
