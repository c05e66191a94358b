/**
 * How long the disk takes to make one ledger row durable, in the ways that a program without native code has, in turns. Before each
 * write the thread sleeps, as a server does that waits for a request.
 *
 *   node bench/synced-writes.ts [--writes 1500] [--directory <on the disk to measure>]
 */
import { constants, write as writeElsewhere, writeSync } from 'node:fs';
import { mkdtempDisposable, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { encodeRecord, openSegment } from '../src/adapters/journal/segment.ts';
import { percentile, printConditions } from './measure.ts';

const { values } = parseArgs({
  options: { writes: { type: 'string', default: '1500' }, directory: { type: 'string', default: tmpdir() } },
});
const FILE_BYTES = 4_194_304;
const ROW = encodeRecord('x'.repeat(490));

printConditions('Synced writes');
await using directory = await mkdtempDisposable(join(values.directory, 'baobab-bench-'));

async function openPlain(name: string, flags: number) {
  const path = join(directory.path, name);
  const whole = await open(path, constants.O_RDWR | constants.O_CREAT);
  await whole.writeFile(Buffer.alloc(FILE_BYTES));
  await whole.sync();
  await whole.close();
  return open(path, constants.O_RDWR | flags);
}

const unsynced = await openPlain('unsynced', 0);
const cached = await openPlain('cached', constants.O_DSYNC);
const segment = await openSegment({ path: join(directory.path, 'segment'), bytes: FILE_BYTES, synced: true });
let position = 0;
const elsewhere = (fd: number) =>
  new Promise<void>((resolve, reject) =>
    writeElsewhere(fd, ROW, 0, ROW.length, position, (error) => (error === null ? resolve() : reject(error))),
  );

const ways: Record<string, () => unknown> = {
  'in the cache only, another thread': () => elsewhere(unsynced.fd),
  'through the cache, another thread': () => elsewhere(cached.fd),
  'through the cache, this thread': () => writeSync(cached.fd, ROW, 0, ROW.length, position),
  'journal, another thread': () => segment.write(ROW),
};
const results = Object.keys(ways).map(() => ({ ms: [] as number[], processorUs: 0 }));
for (let written = 0; written < Number(values.writes); written += 1) {
  position = (written * ROW.length) % (FILE_BYTES - ROW.length);
  if (!segment.hasRoomFor(ROW.length * 2)) segment.rewind();
  for (const [index, way] of Object.values(ways).entries()) {
    const result = results[index] as (typeof results)[number];
    await sleep(1);
    const processor = process.cpuUsage();
    const startedAt = performance.now();
    await way();
    result.ms.push(performance.now() - startedAt);
    const { user, system } = process.cpuUsage(processor);
    result.processorUs += user + system;
  }
}
console.table(
  Object.fromEntries(
    results.map(({ ms, processorUs }, index) => [
      Object.keys(ways)[index],
      {
        'p10 ms': Number(percentile(ms, 0.1).toFixed(3)),
        'p50 ms': Number(percentile(ms, 0.5).toFixed(3)),
        'p99 ms': Number(percentile(ms, 0.99).toFixed(2)),
        'processor µs': Number((processorUs / ms.length).toFixed(1)),
      },
    ]),
  ),
);
await Promise.all([unsynced.close(), cached.close(), segment.close({ empty: true })]);
