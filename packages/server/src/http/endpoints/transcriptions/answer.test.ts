import { describe, expect, it } from 'vitest';
import { toSrt, toVtt, transcriptAnswer } from './answer.ts';

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

const CUES = [
  { startSeconds: 0, endSeconds: 2.5, text: ' Good morning. ' },
  { startSeconds: 3661.0015, endSeconds: 3723.996, text: 'Less < more & a --> b\n\nsecond line' },
];

describe('toSrt', () => {
  it('numbers the cues from 1, writes a comma before the milliseconds and ends each with a blank line', () => {
    expect(toSrt(CUES)).toBe(
      '1\n00:00:00,000 --> 00:00:02,500\nGood morning.\n\n' +
        '2\n01:01:01,000 --> 01:02:04,000\nLess < more & a --> b\nsecond line\n\n',
    );
  });

  it('is empty for no cues', () => {
    expect(toSrt([])).toBe('');
  });
});

describe('toVtt', () => {
  it('begins with the header, writes a dot before the milliseconds and escapes markup', () => {
    expect(toVtt(CUES)).toBe(
      'WEBVTT\n\n00:00:00.000 --> 00:00:02.500\nGood morning.\n\n' +
        '01:01:01.000 --> 01:02:04.000\nLess &lt; more &amp; a --&gt; b\nsecond line\n\n',
    );
  });

  it('is only the header for no cues', () => {
    expect(toVtt([])).toBe('WEBVTT\n\n');
  });

  it('counts past a hundred hours', () => {
    expect(toVtt([{ startSeconds: 360_000, endSeconds: 360_001, text: 'x' }])).toContain(
      '100:00:00.000 --> 100:00:01.000',
    );
  });
});
