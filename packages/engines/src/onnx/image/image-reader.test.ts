import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { sealOf } from '../../seccomp/testing/seal-of.ts';
import { createImageReader } from './image-reader.ts';
import { readPreparation } from './preparation.ts';

const EDGE = 32;
const preparation = readPreparation({ size: { shortest_edge: EDGE }, crop_size: EDGE });
const FIELD = ['inputs', 0, 'image'];
const dataUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString('base64')}`;
const red = (edge = 64) =>
  sharp({ create: { width: edge, height: edge, channels: 3, background: { r: 255, g: 0, b: 0 } } });
const damaged = { code: 'validation_failed', status: 422, field: FIELD };

describe('the process that decodes images', () => {
  it('decodes every format one after the other, sealed by the kernel', async () => {
    await using reader = createImageReader(preparation);
    for (const bytes of [
      await red().png().toBuffer(),
      await red().jpeg().toBuffer(),
      await red().webp().toBuffer(),
      await red().gif().toBuffer(),
    ]) {
      const pixels = await reader.decode(dataUrl(bytes), FIELD);
      expect(pixels).toHaveLength(3 * EDGE * EDGE);
      expect(pixels[0]).toBeGreaterThan(1.8);
      expect(pixels.at(-1)).toBeLessThan(-1.3);
    }
    if (process.platform === 'linux') expect(sealOf('image/decoder-process.ts')).toEqual(['2']);
  });

  it('refuses a damaged image and one that is too large, and goes on', async () => {
    await using reader = createImageReader(preparation);
    const image = await red().png().toBuffer();
    await expect(reader.decode(dataUrl(image.subarray(0, 90)), FIELD)).rejects.toMatchObject(damaged);
    await expect(reader.decode('data:image/png;base64,', FIELD)).rejects.toMatchObject(damaged);
    const large = await red(4_001).png().toBuffer();
    await expect(reader.decode(dataUrl(large), FIELD)).rejects.toMatchObject({
      ...damaged,
      message: expect.stringContaining('The image is 4001 × 4001 pixels'),
    });
    expect(await reader.decode(dataUrl(image), FIELD)).toHaveLength(3 * EDGE * EDGE);
  });

  it('ends with its engine process', async () => {
    const reader = createImageReader(preparation);
    await reader.decode(dataUrl(await red().png().toBuffer()), FIELD);
    await reader[Symbol.asyncDispose]();
    if (process.platform === 'linux') expect(sealOf('image/decoder-process.ts')).toEqual([]);
  });
});

/** A process that runs this code in place of the decoder. */
async function readerWith(code: string, stallMs?: number) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'baobab-image-'));
  const entry = join(folder.path, 'entry.mjs');
  await writeFile(entry, `import { writeSync, readSync } from 'node:fs'; ${code}`);
  const reader = createImageReader(preparation, { entry, ...(stallMs !== undefined && { stallMs }) });
  return {
    decode: () => reader.decode('data:image/png;base64,AAAA', FIELD),
    async [Symbol.asyncDispose]() {
      await reader[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}
const AT_WORK = "writeSync(3, '\\n'); readSync(0, Buffer.alloc(7));";

describe('an image that is too much for the process', () => {
  it('fails alone: another process decodes the next one', async () => {
    await using reader = await readerWith(`${AT_WORK} process.abort();`);
    await expect(reader.decode()).rejects.toMatchObject(damaged);
    await expect(reader.decode()).rejects.toMatchObject(damaged);
  });

  it('fails when it takes too long', async () => {
    await using reader = await readerWith(`${AT_WORK} setInterval(() => {}, 1000);`, 2_000);
    await expect(reader.decode()).rejects.toMatchObject(damaged);
  });

  it('fails when it takes too much memory', async () => {
    const code = `${AT_WORK} const all = []; for (let i = 0; i < 4_000; i++) all.push(Buffer.alloc(1 << 20, 1));`;
    await using reader = await readerWith(code);
    await expect(reader.decode()).rejects.toMatchObject(damaged);
  });

  it('is an internal error when the process never started', async () => {
    await using reader = await readerWith('process.exit(9);');
    await expect(reader.decode()).rejects.toThrow('the image decoder did not start: it ended with 9');
  });
});
