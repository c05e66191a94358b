import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EmbeddingInput, EngineModel } from '../../packages/core/src/engine/engine.ts';
import { callContext } from '../../packages/core/src/engine/testing/call-context.ts';
import { load } from '../../packages/engines/src/onnx/load.ts';
import { CLIP_DIRECTORY, cosine, dataUrl, drawn, reference } from '../fixtures/clip/images.ts';

let model: EngineModel;
beforeAll(async () => {
  model = await load({
    slug: 'test/clip',
    version: '2026-11-18',
    engine: {
      driver: 'onnx',
      task: 'embedding',
      options: { model: 'onnx/text_model.onnx', imageModel: 'onnx/vision_model.onnx', tokenizer: 'tokenizer.json' },
    },
    directory: CLIP_DIRECTORY,
    contextLength: 24,
    dimensions: 16,
    maxOutputTokens: null,
    threads: 1,
    parallelSequences: 1,
    backend: 'cpu',
  });
});
afterAll(() => model[Symbol.asyncDispose]());

async function embed(
  inputs: readonly EmbeddingInput[],
  { dimensions, signal }: { dimensions?: number; signal?: AbortSignal } = {},
) {
  const result = await model.embedding?.embed({ inputs, dimensions }, callContext(signal));
  if (result === undefined) throw new Error('cannot embed');
  const size = result.dimensions;
  return { ...result, rows: inputs.map((_, index) => result.vectors.slice(index * size, (index + 1) * size)) };
}

const image = (bytes: Buffer, tokens = 256) => ({ url: dataUrl(bytes), tokens });
const { images, texts } = reference;
const { photo, tall, wide, small, line, poster, grey } = images;
const sized = ({ width, height }: typeof photo, options?: { alpha?: boolean; poster?: boolean }) =>
  drawn(width, height, options);

describe('the vector of an image agrees with the reference', () => {
  it.each([
    ['PNG', photo, () => sized(photo).png()],
    ['interlaced PNG', photo, () => sized(photo).png({ progressive: true })],
    ['PNG with a palette', poster, () => sized(poster, { poster: true }).png({ palette: true, dither: 0 })],
    ['PNG of 16 bits', photo, () => sized(photo).toColourspace('rgb16').png()],
    ['JPEG', photo, () => sized(photo).jpeg({ quality: 95 })],
    ['progressive JPEG', photo, () => sized(photo).jpeg({ quality: 95, progressive: true })],
    ['WebP', photo, () => sized(photo).webp({ quality: 95 })],
    ['lossless WebP', photo, () => sized(photo).webp({ lossless: true })],
    ['GIF', poster, () => sized(poster, { poster: true }).gif({ dither: 0 })],
    ['transparent PNG', photo, () => sized(photo, { alpha: true }).png()],
    ['transparent WebP', photo, () => sized(photo, { alpha: true }).webp({ lossless: true, exact: true })],
    ['grey PNG', grey, () => sized(photo).extractChannel(0).png()],
    ['grey JPEG', grey, () => sized(photo).extractChannel(0).jpeg({ quality: 95 })],
    ['tall PNG', tall, () => sized(tall).png()],
    ['wide PNG', wide, () => sized(wide).png()],
    ['PNG that is smaller than the input of the model', small, () => sized(small).png()],
    ['PNG of 60 000 × 3 pixels', line, () => sized(line).png()],
    [
      'JPEG that a camera held upside down',
      photo,
      () => sized(photo).rotate(180).withMetadata({ orientation: 3 }).jpeg({ quality: 95 }),
    ],
    [
      'JPEG that a camera held upright',
      photo,
      () => sized(photo).rotate(90).withMetadata({ orientation: 8 }).jpeg({ quality: 95, chromaSubsampling: '4:4:4' }),
    ],
  ])('of a %s', async (_, expected, encode) => {
    const { rows } = await embed([image(await encode().toBuffer())]);
    expect(cosine(rows[0] ?? [], expected.vector)).toBeGreaterThan(0.999);
    expect(Math.hypot(...(rows[0] ?? []))).toBeCloseTo(1, 5);
  });
});

it('texts are encoded into the same space, beside images', async () => {
  const png = image(await sized(photo).png().toBuffer(), 300);
  const { rows, tokens } = await embed([texts[0]?.text ?? '', png, texts[1]?.text ?? '', png]);
  expect(cosine(rows[0] ?? [], texts[0]?.vector ?? [])).toBeGreaterThan(0.99999);
  expect(cosine(rows[1] ?? [], photo.vector)).toBeGreaterThan(0.999);
  expect(cosine(rows[2] ?? [], texts[1]?.vector ?? [])).toBeGreaterThan(0.99999);
  expect(rows[3]).toEqual(rows[1]);
  expect(tokens).toEqual([texts[0]?.tokens, 300, texts[1]?.tokens, 300]);
});

it('vectors of images can be cut', async () => {
  const png = image(await sized(photo).png().toBuffer());
  const { rows } = await embed([png], { dimensions: 8 });
  expect(rows[0]).toHaveLength(8);
  expect(cosine(rows[0] ?? [], photo.vector.slice(0, 8))).toBeGreaterThan(0.999);
  expect(Math.hypot(...(rows[0] ?? []))).toBeCloseTo(1, 5);
});

describe('an image that cannot be decoded', () => {
  it('is named, and does not harm the images of others', async () => {
    const png = await sized(photo).png().toBuffer();
    const [bad, good] = await Promise.allSettled([
      embed(['a cat', image(png), image(png.subarray(0, png.length / 2))]),
      embed([image(png)]),
    ]);
    expect(bad).toMatchObject({
      status: 'rejected',
      reason: { code: 'validation_failed', field: ['inputs', 2, 'image'] },
    });
    expect(good.status).toBe('fulfilled');
  });

  it.each([
    [
      'SVG',
      Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><rect width="9" height="9"/></svg>'),
    ],
    ['nothing', Buffer.alloc(0)],
    ['a GIF without frames', Buffer.from(`GIF89a${'x'.repeat(60)}`)],
  ])('may be %s', async (_, bytes) => {
    await expect(embed([image(bytes)])).rejects.toMatchObject({
      code: 'validation_failed',
      field: ['inputs', 0, 'image'],
    });
  });

  it.each(['png', 'jpeg', 'webp', 'gif'] as const)('may be half of a %s', async (format) => {
    const bytes = await sized(photo)[format]().toBuffer();
    await expect(embed([image(bytes.subarray(0, bytes.length / 2))])).rejects.toMatchObject({
      code: 'validation_failed',
      field: ['inputs', 0, 'image'],
    });
  });

  it('may have too many pixels', async () => {
    const background = '#336699';
    const png = await sharp({ create: { width: 4_001, height: 4_000, channels: 3, background } })
      .png()
      .toBuffer();
    await expect(embed([image(png)])).rejects.toThrow('The image is 4001 × 4000 pixels');
  });
});

it('images of a request that was cancelled are not run', async () => {
  const abort = new AbortController();
  const png = image(await sized(photo).png().toBuffer());
  const waiting = embed(
    Array.from({ length: 40 }, () => png),
    { signal: abort.signal },
  );
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: 'client_cancelled' });
  expect((await embed([png])).rows).toHaveLength(1);
});
