import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer } from '../test/acceptance/start-server.ts';

/**
 * Measures the extra memory that large uploads need. Reads the peak from /proc, so it runs on Linux only.
 */
const { values } = parseArgs({
  options: { megabytes: { type: 'string', default: '512' }, uploads: { type: 'string', default: '3' } },
});
const bytes = Number(values.megabytes) * 1_048_576;
const GOAL_MB = 60;
const PIECE = randomBytes(1_048_576);

await using server = await startServer({ env: { BAOBAB_LOG_LEVEL: 'warn' } });

async function memoryMb(field: 'VmRSS' | 'VmHWM'): Promise<number> {
  const status = await readFile(`/proc/${server.process.pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024;
}

async function* form(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n');
  yield Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="large.bin"\r\n\r\n');
  for (let sent = 0; sent < bytes; sent += PIECE.length) yield PIECE;
  yield Buffer.from('\r\n--b--\r\n');
}

// Garbage from the start must not count as the upload's.
await sleep(2_000);
const restMb = await memoryMb('VmRSS');
for (let upload = 1; upload <= Number(values.uploads); upload += 1) {
  const began = performance.now();
  const answer = await fetch(`${server.address}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'multipart/form-data; boundary=b' },
    body: ReadableStream.from(form()),
    duplex: 'half',
  } as RequestInit);
  if (!answer.ok) throw new Error(`the upload failed with ${answer.status}: ${await answer.text()}`);
  const { id } = (await answer.json()) as { id: string };
  const seconds = (performance.now() - began) / 1000;
  const extraMb = (await memoryMb('VmHWM')) - restMb;
  console.log(
    `upload ${upload}: ${values.megabytes} MB at ${(Number(values.megabytes) / seconds).toFixed(0)} MB/s, peak ${extraMb.toFixed(0)} MB above rest`,
  );
  if (extraMb > GOAL_MB) process.exitCode = 1;
  await fetch(`${server.address}/v1/files/${id}`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${server.apiKey}` },
  });
}
console.log(`goal: at most ${GOAL_MB} MB`);
