import { describe, expect, it } from 'vitest';
import { geometryOf, readPreparation } from './preparation.ts';

describe('preprocessor_config.json', () => {
  it('of CLIP gives size, crop, kernel and the range of the pixels', () => {
    const { scale, shift, ...rest } = readPreparation({
      crop_size: { height: 224, width: 224 },
      do_center_crop: true,
      image_mean: [0.5, 0.5, 0.5],
      image_std: [0.5, 0.25, 0.5],
      resample: 3,
      rescale_factor: 1 / 255,
      size: { shortest_edge: 256 },
    });
    expect(rest).toEqual({ resize: { shortest: 256 }, crop: { width: 224, height: 224 }, kernel: 'cubic' });
    expect(255 * scale[1] + shift[1]).toBeCloseTo(2);
    expect(shift[0]).toBe(-1);
  });

  it('of older exports has bare numbers, and an empty one means CLIP', () => {
    const older = readPreparation({ size: 224, crop_size: 224 });
    expect(older).toEqual(readPreparation({}));
    expect(older.crop).toEqual({ width: 224, height: 224 });
  });

  it('may leave out single steps', () => {
    const { scale, shift } = readPreparation({ do_rescale: false, do_normalize: false });
    expect([scale, shift.map(Math.abs)]).toEqual([
      [1, 1, 1],
      [0, 0, 0],
    ]);
  });

  it.each([
    [{ resample: 5 }, 'a resample that is not supported: 5'],
    [{ size: { longest_edge: 224 } }, 'a size that is not supported'],
    [{ size: 224, crop_size: 256 }, 'a crop_size that is not supported: 256'],
    [{ size: 1e9 }, 'a size that is not supported: 1000000000'],
    [{ image_mean: [0.5] }, 'image_mean that is not supported'],
  ])('%j is refused', (config, message) => {
    expect(() => readPreparation(config)).toThrow(message);
  });
});

describe('the place of the crop', () => {
  const clip = readPreparation({});

  it.each([
    ['landscape', { width: 640, height: 480 }, { width: 298, height: 224 }, { left: 37, top: 0 }],
    ['portrait', { width: 480, height: 641 }, { width: 224, height: 299 }, { left: 0, top: 37 }],
  ])('of a %s is rounded as in training', (_, size, resized, place) => {
    expect(geometryOf(size, clip)).toEqual({
      part: undefined,
      resized,
      crop: { ...place, width: 224, height: 224 },
    });
  });

  it('of a very long image is in the middle of a part of it', () => {
    for (const width of [60_000, 60_001]) {
      const { part, resized } = geometryOf({ width, height: 3 }, clip);
      const { left = 0, width: kept = 0 } = part ?? {};
      expect(left + kept + left).toBe(width);
      expect(resized.width).toBeLessThan(1_000);
    }
    const { part } = geometryOf({ width: 1, height: 64_000_000 }, clip);
    expect(part).toMatchObject({ left: 0, width: 1, height: 4 });
  });

  it('is the whole image where both edges are given', () => {
    const squeezed = readPreparation({ size: { width: 64, height: 32 } });
    expect(geometryOf({ width: 900, height: 10 }, squeezed)).toEqual({
      part: undefined,
      resized: { width: 64, height: 32 },
      crop: { left: 0, top: 0, width: 64, height: 32 },
    });
  });
});
