import { expect, it } from 'vitest';
import { turnsDuring } from '../../../../../test/fixtures/turns-during.ts';
import type { EmbeddingInput } from '../engine.ts';
import { joinImages, splitImages } from './image-urls.ts';

const image = (characters: number, tokens: number) => ({
  url: `data:image/png;base64,${'iVBORw0KGgo='.repeat(characters / 12)}`,
  tokens,
});

it('data URLs leave the header and come back to their places', async () => {
  const inputs: EmbeddingInput[] = ['ü€🌳', image(2_400_000, 300), [1, 2, 3], image(12, 256), image(0, 256)];
  const { body, ...header } = await splitImages(inputs);
  const json = JSON.stringify(header);
  expect(json.length).toBeLessThan(200);
  expect(joinImages({ ...JSON.parse(json), body })).toEqual(inputs);
});

it('others work while long data URLs are written', async () => {
  expect(await turnsDuring(() => splitImages([image(8_000_004, 256)]))).toBeGreaterThan(5);
});
