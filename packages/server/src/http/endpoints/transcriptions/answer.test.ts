import { expect, it } from 'vitest';
import { transcriptAnswer } from './answer.ts';

it('gives times in hundredths of a second, which is what models can tell', () => {
  const segment = {
    id: 0,
    windowStartSeconds: 0.46,
    startSeconds: 0.46 + 1.98,
    endSeconds: 0.1 + 0.2,
    text: ' Hello.',
    tokens: [1],
    temperature: 0,
    averageLogprob: -0.3496630332377403,
    compressionRatio: 1,
    noSpeechProbability: 0,
  };
  const done = {
    text: 'Hello.',
    language: 'en',
    durationSeconds: 5.300000000000001,
    billedSeconds: 6,
    segments: [segment],
    words: [{ word: 'Hello', startSeconds: 27.341_187_5 + 1.24, endSeconds: 4.060000000000001 }],
  };
  const request = { response_format: 'verbose_json', timestamp_granularities: ['word', 'segment'] };
  type Given = Parameters<typeof transcriptAnswer>;
  const { body } = transcriptAnswer(done as unknown as Given[0], request as Given[1]);
  expect(JSON.parse(body)).toMatchObject({
    duration: 5.3,
    segments: [{ start: 2.44, end: 0.3, avg_logprob: -0.3496630332377403 }],
    words: [{ word: 'Hello', start: 28.58, end: 4.06 }],
  });
});
