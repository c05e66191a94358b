import { mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { openConnection } from './connection.ts';
import { ReportProcesses } from './report-processes.ts';

const IDLE_MS = 30_000;

async function children(): Promise<string[]> {
  const pids = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8');
  return pids
    .trim()
    .split(' ')
    .filter((pid) => pid !== '');
}

it('keeps the processes that were used since the last time, and one of the others', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-reports-'));
  const path = join(directory.path, 'a.sqlite');
  openConnection(path, 1_000).close();
  const before = await children();
  const processes = new ReportProcesses({ path, busyTimeoutMs: 1_000 });
  onTestFinished(() => processes.close());
  const turn = { signal: new AbortController().signal, begun: () => {} };
  const run = () => processes.run({ sql: 'select 1 as one', parameters: [] }, turn);
  const started = async () => (await children()).filter((pid) => !before.includes(pid));

  await Promise.all([run(), run(), run()]);
  const first = await started();
  expect(first).toHaveLength(3);
  vi.advanceTimersByTime(IDLE_MS);
  await Promise.all([run(), run(), run()]);
  expect(await started()).toEqual(first);

  vi.advanceTimersByTime(IDLE_MS);
  await run();
  // Two were not used since then.
  vi.advanceTimersByTime(IDLE_MS);
  await expect.poll(started, { timeout: 10_000 }).toHaveLength(1);
  vi.advanceTimersByTime(10 * IDLE_MS);
  expect((await run()).rows).toEqual([{ one: 1 }]);
  expect(first).toEqual(expect.arrayContaining(await started()));
});
