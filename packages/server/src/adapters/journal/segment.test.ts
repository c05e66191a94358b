import fs from 'node:fs';
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { encodeRecord, openSegment, readRecords } from './segment.ts';

const BYTES = 4_096;
const KEEP = { empty: false };

let files = 0;
const freshPath = () => join(directory, `${files++}`);
const directory = await mkdtemp(join(tmpdir(), 'baobab-segment-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

const openFresh = (path: string, synced = true) => openSegment({ path, bytes: BYTES, synced });

async function overwrite(path: string, at: number, bytes: Uint8Array): Promise<void> {
  const handle = await open(path, 'r+');
  await handle.write(bytes, 0, bytes.length, at).finally(() => handle.close());
}

describe('segment', () => {
  it.each([true, false])('reads back what was written, synced: %s', async (synced) => {
    const path = freshPath();
    const segment = await openFresh(path, synced);
    const texts = ['"one"', '"zwei £ 三"', '""'];
    await Promise.all(texts.map((text) => segment.write(encodeRecord(text))));
    expect(await readRecords(path)).toEqual(texts);
    await segment.close(KEEP);
  });

  it('allocates its space at once, readable by its owner only, and reports when it is full', async () => {
    const path = freshPath();
    const segment = await openFresh(path);
    const { size, mode } = await stat(path);
    expect([size, mode & 0o777]).toEqual([BYTES, 0o600]);
    expect([segment.isUsed, segment.hasRoomFor(BYTES), segment.hasRoomFor(BYTES + 1)]).toEqual([false, true, false]);
    await segment.write(encodeRecord('1'));
    expect([segment.isUsed, segment.hasRoomFor(BYTES)]).toEqual([true, false]);
    segment.rewind();
    expect([segment.isUsed, segment.hasRoomFor(BYTES)]).toEqual([false, true]);
    await segment.close(KEEP);
  });

  it('skips torn and missing records and reads the ones after them', async () => {
    const path = freshPath();
    const segment = await openFresh(path);
    const records = ['"first"', '"second"', '"third"', '"fourth"'].map(encodeRecord);
    for (const record of records) await segment.write(record);
    await segment.close(KEEP);
    const [one, two, three] = records.map(({ length }) => length) as [number, number, number];
    // The second record never reached the disk, and only part of the third did.
    await overwrite(path, one, Buffer.alloc(two));
    await overwrite(path, one + two + three - 4, Buffer.alloc(4));
    expect(await readRecords(path)).toEqual(['"first"', '"fourth"']);
  });

  it('reads the new records first after a rewind', async () => {
    const path = freshPath();
    const segment = await openFresh(path);
    for (const text of ['"an old one"', '"another old one"']) await segment.write(encodeRecord(text));
    segment.rewind();
    for (const text of ['1', '2']) await segment.write(encodeRecord(text));
    await segment.close(KEEP);
    expect((await readRecords(path)).slice(0, 2)).toEqual(['1', '2']);
  });

  it('reads no records from a missing file, and opens empty', async () => {
    const path = freshPath();
    expect(await readRecords(path)).toEqual([]);
    const segment = await openFresh(path);
    await segment.write(encodeRecord('1'));
    await segment.close(KEEP);
    expect(await readRecords(path)).toEqual(['1']);
    await (await openFresh(path)).close(KEEP);
    expect(await readRecords(path)).toEqual([]);
  });

  it.each([
    ['failed', new Error('EIO'), 0],
    ['stopped short', null, 1],
  ])('does not read a record whose write %s after its bytes reached the file', async (_, failure, written) => {
    const path = freshPath();
    const segment = await openFresh(path);
    await segment.write(encodeRecord('1'));
    const { write } = fs;
    type Done = (error: Error | null, written: number) => void;
    const fail = (fd: number, bytes: Uint8Array, offset: number, length: number, position: number, done: Done) =>
      write(fd, bytes, offset, length, position, () => done(failure, written));
    const failing = vi.spyOn(fs, 'write').mockImplementationOnce(fail as unknown as typeof write);
    syncBuiltinESMExports();
    onTestFinished(() => {
      failing.mockRestore();
      syncBuiltinESMExports();
    });
    await expect(segment.write(encodeRecord('2'))).rejects.toThrow(/EIO|only 1 of/);
    await segment.write(encodeRecord('3'));
    expect(await readRecords(path)).toEqual(['1', '3']);
    await segment.close(KEEP);
  });

  it('removes all records when it is closed empty', async () => {
    const path = freshPath();
    const segment = await openFresh(path);
    await segment.write(encodeRecord('1'));
    await segment.close({ empty: true });
    expect((await stat(path)).size).toBe(0);
    expect(await readRecords(path)).toEqual([]);
  });
});
