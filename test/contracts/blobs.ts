import { createHash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BlobStore, ByteRange } from '../../packages/core/src/ports/blobs.ts';

async function* pieces(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield typeof part === 'string' ? Buffer.from(part) : part;
}

async function* failing(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('half');
  throw new Error('the client went away');
}

/** Every store of bytes behaves like this. `open` gives an empty one. */
export function blobsContract(name: string, open: () => Promise<BlobStore>): void {
  describe(`blobs: ${name}`, () => {
    let blobs: BlobStore;
    beforeAll(async () => {
      blobs = await open();
    });

    const read = async (key: string, range?: ByteRange) => {
      const stream = await blobs.get(key, range);
      return stream && (await buffer(stream));
    };
    const keys = async (prefix: string) => {
      const found: string[] = [];
      for await (const blob of blobs.list(prefix)) found.push(blob.key);
      return found.sort();
    };

    it('stores a stream and gives back its bytes, size and digest', async () => {
      const big = randomBytes(1_500_000);
      const result = await blobs.put('files/big', pieces(big.subarray(0, 700_001), big.subarray(700_001)));
      expect(result).toEqual({ bytes: big.length, sha256: createHash('sha256').update(big).digest('hex') });
      expect((await read('files/big'))?.equals(big)).toBe(true);
      const info = await blobs.stat('files/big');
      expect(info).toMatchObject({ key: 'files/big', bytes: big.length });
      expect(Math.abs((info?.modifiedAt ?? 0) - Date.now())).toBeLessThan(60_000);
    });

    it('stores an empty blob', async () => {
      expect((await blobs.put('empty', pieces())).bytes).toBe(0);
      expect(await read('empty')).toEqual(Buffer.alloc(0));
    });

    it('replaces a blob whole', async () => {
      await blobs.put('twice', pieces('a longer first text'));
      await blobs.put('twice', pieces('short'));
      expect((await read('twice'))?.toString()).toBe('short');
    });

    it('reads ranges with an inclusive end', async () => {
      await blobs.put('range', pieces('0123456789'));
      expect((await read('range', { start: 2, end: 4 }))?.toString()).toBe('234');
      expect((await read('range', { start: 9, end: 9 }))?.toString()).toBe('9');
      expect((await read('range', { start: 0, end: 9 }))?.toString()).toBe('0123456789');
    });

    it('returns undefined for a missing blob', async () => {
      expect(await read('none')).toBeUndefined();
      expect(await blobs.stat('none')).toBeUndefined();
      expect(await blobs.stat('range/below')).toBeUndefined();
    });

    it('leaves the previous blob in place when the source fails', async () => {
      await expect(blobs.put('failed/new', failing())).rejects.toThrow('the client went away');
      expect(await blobs.stat('failed/new')).toBeUndefined();
      await blobs.put('failed/old', pieces('kept'));
      await expect(blobs.put('failed/old', failing())).rejects.toThrow();
      expect((await read('failed/old'))?.toString()).toBe('kept');
      expect(await keys('failed/')).toEqual(['failed/old']);
    });

    it('deletes a blob, and ignores a missing one', async () => {
      await blobs.put('gone', pieces('x'));
      await blobs.delete('gone');
      expect(await blobs.stat('gone')).toBeUndefined();
      await blobs.delete('gone');
    });

    it('lists by prefix, in directories and within names', async () => {
      for (const key of ['list/a/1', 'list/a/2', 'list/b/1', 'list/abc']) await blobs.put(key, pieces('x'));
      expect(await keys('list/')).toEqual(['list/a/1', 'list/a/2', 'list/abc', 'list/b/1']);
      expect(await keys('list/a')).toEqual(['list/a/1', 'list/a/2', 'list/abc']);
      expect(await keys('list/a/')).toEqual(['list/a/1', 'list/a/2']);
      expect(await keys('absent/')).toEqual([]);
    });

    it('refuses keys that could leave the store', async () => {
      for (const key of ['', '/', '../x', 'a/../b', 'a//b', '/a', 'a/', '.temporary/x', 'a/.hidden', 'a\0b', 'a b']) {
        await expect(blobs.put(key, pieces('x')), key).rejects.toThrow(RangeError);
        await expect(read(key), key).rejects.toThrow(RangeError);
      }
    });
  });
}
