import { describe, expect, it } from 'vitest';
import { estimateImageTokens, readImageHead } from './image.ts';

const bytes = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));
const padded = (hex: string, length = 40): Uint8Array => {
  const filled = new Uint8Array(length);
  filled.set(bytes(hex));
  return filled;
};

describe('the head of an image', () => {
  it.each([
    ['PNG', padded('89504e47 0d0a1a0a 0000000d 49484452 00000280 000001e0'), 'image/png'],
    ['GIF', padded('47494638 3961 8002 e001'), 'image/gif'],
    ['JPEG', padded('ffd8 ffe0 0004 0000 ffc4 0003 00 ffff c2 0011 08 01e0 0280'), 'image/jpeg'],
    ['lossy WebP', padded('52494646 00000000 57454250 56503820 00000000 300100 9d012a 8002 e001'), 'image/webp'],
    ['lossless WebP', padded('52494646 00000000 57454250 5650384c 00000000 2f 7fc27700'), 'image/webp'],
    ['extended WebP', padded('52494646 00000000 57454250 56503858 0000000a 00000000 7f0200 df0100'), 'image/webp'],
  ])('of a %s has its type and dimensions', (_name, head, mediaType) => {
    expect(readImageHead(head)).toEqual({ mediaType, width: 640, height: 480 });
  });

  it.each([
    ['too short', bytes('89504e47')],
    ['a text', new Uint8Array(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"></svg>'))],
    ['a sound', padded('52494646 00000000 57415645 00000000')],
    ['a JPEG without a frame', padded('ffd8 ffe0 0004 0000 0000')],
  ])('is undefined for %s', (_name, head) => {
    expect(readImageHead(head)).toBeUndefined();
  });

  it('never reads past the end', () => {
    const heads = ['89504e47', '47494638', 'ffd8ffe0ffff', 'ffd8ffffffff', '52494646000000005745425056503858'];
    for (const head of heads) {
      for (let length = 16; length < 64; length += 1) {
        expect(() => readImageHead(padded(head, length))).not.toThrow();
      }
    }
  });
});

describe('the estimated tokens of an image', () => {
  it('grow with its area, within bounds', () => {
    expect(estimateImageTokens({ width: 1, height: 1 })).toBe(256);
    expect(estimateImageTokens({ width: 640, height: 480 })).toBe(23 * 18);
    expect(estimateImageTokens({ width: 10_000, height: 10_000 })).toBe(16_384);
  });
});
