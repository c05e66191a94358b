import { Readable } from 'node:stream';
import type { StoredFile } from '@baobab/core/domain/file.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ByteRange } from '@baobab/core/ports/blobs.ts';
import { describe, expect, it } from 'vitest';
import { createImages, type ImageReference, type ImagesSettings } from './images.ts';

/** A PNG as far as its head. */
function png(width: number, height: number, bytes = 64): Buffer {
  const image = Buffer.alloc(bytes);
  image.write('89504e470d0a1a0a0000000d49484452', 'hex');
  image.writeUInt32BE(width, 16);
  image.writeUInt32BE(height, 20);
  return image;
}
const dataUrl = (image: Buffer): string => `data:image/png;base64,${image.toString('base64')}`;
const inline = (url: string): ImageReference => ({ source: { url }, field: 'messages[0].content[1]' });

function setUp(settings: Partial<ImagesSettings> = {}, stored: Partial<StoredFile> & { content?: Buffer } = {}) {
  const { content = png(640, 480), ...changes } = stored;
  const file = { id: 'file_1', accountId: 'acc_1', purpose: 'vision', bytes: content.length, ...changes } as StoredFile;
  const reads: (ByteRange | undefined)[] = [];
  const images = createImages({
    settings: { maxPerRequest: 2, maxBytes: 1_000, allowedHosts: [], ...settings },
    files: {
      async get(accountId, id, field) {
        if (accountId !== file.accountId || id !== file.id) throw errors.fileNotFound(id, field);
        return file;
      },
      async open(_file, range) {
        reads.push(range);
        return Readable.from([content.subarray(range?.start ?? 0, (range?.end ?? content.length) + 1)]);
      },
    },
  });
  return { images, reads };
}

describe('images of a request', () => {
  it('are passed on as they came, with an estimate of their tokens', async () => {
    const { images } = setUp();
    const url = dataUrl(png(640, 480));
    const [image] = await images.check('acc_1', [{ ...inline(url), detail: 'low' }]);
    expect(await image?.load()).toEqual({ url, detail: 'low', tokens: 414 });
  });

  it('come from files of the account, read only when the request is admitted', async () => {
    const content = png(640, 480, 900);
    const { images, reads } = setUp({}, { content });
    const reference: ImageReference = { source: { fileId: 'file_1' }, field: 'messages[0].content[0]' };
    const [image] = await images.check('acc_1', [reference]);
    expect(reads).toEqual([{ start: 0, end: 899 }]);
    expect(await image?.load()).toEqual({ url: dataUrl(content), detail: undefined, tokens: 414 });
    await expect(images.check('acc_2', [reference])).rejects.toMatchObject({
      code: 'file_not_found',
      field: 'messages[0].content[0]',
    });
  });

  it('come from the hosts that the operator allows', async () => {
    const { images } = setUp({ allowedHosts: ['Images.example'] });
    const [image] = await images.check('acc_1', [inline('https://images.example/cat.png')]);
    expect(await image?.load()).toMatchObject({ url: 'https://images.example/cat.png', tokens: 1_536 });
    for (const url of ['https://images.example.org/', 'https://images.example@evil.example/', 'http://127.0.0.1/']) {
      await expect(images.check('acc_1', [inline(url)])).rejects.toMatchObject({
        code: 'unsupported_parameter',
        field: 'messages[0].content[1]',
      });
    }
  });

  it.each([
    ['a network address', 'https://images.example/cat.png', 'unsupported_parameter'],
    ['a path', '/etc/passwd', 'invalid_parameter'],
    ['another scheme', 'file:///etc/passwd', 'invalid_parameter'],
    ['a data URL without base64', 'data:image/svg+xml,<svg/>', 'invalid_parameter'],
    [
      'another type',
      `data:image/png;base64,${Buffer.from('<svg></svg>'.padEnd(64)).toString('base64')}`,
      'unsupported_parameter',
    ],
    ['no pixels', dataUrl(png(0, 5)), 'validation_failed'],
    ['too many pixels', dataUrl(png(50_000, 50_000)), 'validation_failed'],
    ['too many bytes', dataUrl(png(5, 5, 1_200)), 'validation_failed'],
  ])('are refused as %s', async (_name, url, code) => {
    const { images } = setUp();
    await expect(images.check('acc_1', [inline(url)])).rejects.toMatchObject({ code, field: 'messages[0].content[1]' });
  });

  it('are counted together', async () => {
    const { images } = setUp();
    const half = inline(dataUrl(png(5, 5, 600)));
    await expect(images.check('acc_1', [half, half])).rejects.toMatchObject({ code: 'validation_failed' });
    const small = inline(dataUrl(png(5, 5)));
    await expect(images.check('acc_1', [small, small, small])).rejects.toMatchObject({ code: 'validation_failed' });
    expect(await images.check('acc_1', [small, small])).toHaveLength(2);
  });

  it('of one account in memory at a time are bounded', async () => {
    const { images } = setUp();
    const large = await images.check('acc_1', [inline(dataUrl(png(5, 5, 999)))]);
    const held = await Promise.all(Array.from({ length: 8 }, () => images.load('acc_1', large)));
    const another = async (accountId: string) => {
      using loaded = await images.load(accountId, large);
      return loaded.inputs.length;
    };
    await expect(another('acc_1')).rejects.toMatchObject({ code: 'concurrency_exceeded' });
    expect(await another('acc_2')).toBe(1);
    for (const loaded of held) loaded[Symbol.dispose]();
    expect(await another('acc_1')).toBe(1);
  });

  it('are no longer held when one cannot be read', async () => {
    const { images } = setUp();
    const [large] = await images.check('acc_1', [inline(dataUrl(png(5, 5, 999)))]);
    const broken = { tokens: 1, bytes: 7 * 1_000, load: () => Promise.reject(new Error('gone')) };
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await expect(images.load('acc_1', [broken])).rejects.toThrow('gone');
    }
    expect((await images.load('acc_1', large === undefined ? [] : [large])).inputs).toHaveLength(1);
  });

  it('are refused as a file of another purpose, or one that is empty', async () => {
    const reference: ImageReference = { source: { fileId: 'file_1' }, field: 'messages[0].content[0]' };
    const batch = setUp({}, { purpose: 'batch' });
    await expect(batch.images.check('acc_1', [reference])).rejects.toMatchObject({ code: 'invalid_parameter' });
    const empty = setUp({}, { content: Buffer.alloc(0) });
    await expect(empty.images.check('acc_1', [reference])).rejects.toMatchObject({ code: 'unsupported_parameter' });
  });
});
