import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, expect, it } from 'vitest';
import { acquireDataDirLock } from '../../packages/server/src/adapters/data-dir-lock.ts';
import { openStore } from '../../packages/server/src/adapters/store.ts';
import { runAndKill } from './child.ts';

const ROUNDS = 5;

const directory = await mkdtemp(join(tmpdir(), 'baobab-kill-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

/** True for the n-th line with this start, n by chance. */
function someTime(start: string): (line: string) => boolean {
  let left = 1 + Math.floor(Math.random() * 60);
  return (line) => line.startsWith(start) && --left === 0;
}

function query(path: string, sql: string) {
  const raw = new DatabaseSync(path);
  try {
    return raw.prepare(sql).all();
  } finally {
    raw.close();
  }
}

it('opens after every kill -9 with each acknowledged key present, and an entry in the audit log for each key', async () => {
  const path = join(directory, 'keys', 'baobab.db');
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    acknowledged.push(...(await runAndKill('./key-writer.ts', [path], someTime('key_'))));
    expect(query(path, 'pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    const store = await openStore({ kind: 'sqlite', path });
    const stored = new Set((await store.keys.list({})).map((key) => key.id));
    await store.close();
    const audited = query(path, "select target_id as id from audit_log where target_kind = 'key'");
    expect(new Set(audited.map(({ id }) => id))).toEqual(stored);
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
  }
});

it('bills each answered request once and no other twice, over kill -9 and retries', async () => {
  const path = join(directory, 'money', 'baobab.db');
  const sent = new Set<string>();
  const done = new Set<string>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const unanswered = [...sent].filter((number) => !done.has(number));
    const lines = await runAndKill('./money-writer.ts', [path, `${round * 10_000}`, ...unanswered], someTime('done'));
    for (const line of lines) {
      const [event, number = ''] = line.split(' ');
      (event === 'sent' ? sent : done).add(number);
    }
    const billed = query(path, 'select request_id as id, count(*) as times from ledger group by request_id');
    expect(billed.filter(({ times }) => times !== 1)).toEqual([]);
    const ids = new Set(billed.map(({ id }) => id));
    expect([...done].filter((number) => !ids.has(number))).toEqual([]);
    expect([...ids].filter((id) => !sent.has(String(id)))).toEqual([]);
  }
  expect(done.size).toBeGreaterThanOrEqual(ROUNDS);
});

it('has each acknowledged journal row once after every kill -9, with or without a server', async () => {
  const path = join(directory, 'rows', 'baobab.db');
  const sent = new Set<string>();
  const done = new Set<string>();
  for (let life = 0; life < ROUNDS; life += 1) {
    for (const line of await runAndKill('./row-writer.ts', [path, `${life}`], someTime('done'))) {
      const [event, id = ''] = line.split(' ');
      (event === 'sent' ? sent : done).add(id);
    }
    // As the command line does: beside a server or without one.
    const store = await openStore({ kind: 'sqlite', path });
    await store.usage.spentNanoUsd({ accountId: 'acct_1', start: 0, end: 1 });
    await store.close();
    const billed = query(path, 'select request_id as id, count(*) as times from ledger group by request_id');
    expect(billed.filter(({ times }) => times !== 1)).toEqual([]);
    const ids = new Set(billed.map(({ id }) => String(id)));
    expect([...done].filter((id) => !ids.has(id))).toEqual([]);
    expect([...ids].filter((id) => !sent.has(id))).toEqual([]);
  }
  expect(done.size).toBeGreaterThanOrEqual(ROUNDS);
});

it('frees the data directory of a server that was killed', async () => {
  const data = join(directory, 'data');
  await runAndKill('./lock-holder.ts', [data], async () => {
    await expect(acquireDataDirLock(data)).rejects.toThrow(/Another Baobab server \(process \d+\) is running/);
    return true;
  });
  (await acquireDataDirLock(data)).release();
});
