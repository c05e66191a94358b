import { describe, expect, it } from 'vitest';
import { languageCode, wavFile } from './transcription.ts';

describe('transcription upstreams', () => {
  it('writes mono 16 kHz 16-bit PCM and clips', () => {
    const wav = wavFile(Float32Array.of(0, 1, -1, 2, 0.5));
    expect(wav.toString('latin1', 0, 4)).toBe('RIFF');
    expect(wav.readUInt32LE(4)).toBe(wav.length - 8);
    expect(wav.readUInt32LE(24)).toBe(16_000);
    expect(wav.readUInt32LE(40)).toBe(10);
    expect([0, 1, 2, 3, 4].map((i) => wav.readInt16LE(44 + 2 * i))).toEqual([0, 32_767, -32_767, 32_767, 16_384]);
  });

  it.each([
    ['english', 'en'],
    ['Swahili', 'sw'],
    ['de', 'de'],
    ['klingon', undefined],
    [null, undefined],
  ])('reads the language %s as %s', (given, code) => {
    expect(languageCode(given)).toBe(code);
  });
});
