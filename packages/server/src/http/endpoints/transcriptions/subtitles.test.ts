import { describe, expect, it } from 'vitest';
import { toSrt, toVtt } from './subtitles.ts';

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
