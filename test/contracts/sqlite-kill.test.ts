import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openSqlStore } from '../../src/adapters/sql/store.ts';

const ROUNDS = 6;
const writer = fileURLToPath(new URL('./key-writer.ts', import.meta.url));

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-kill-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** Kills the child at a random moment after it has acknowledged some keys; returns the acknowledged ids. */
async function writeAndKill(path: string): Promise<string[]> {
  const child = spawn(process.execPath, [writer, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const acknowledged: string[] = [];
  const killAfter = 1 + Math.floor(Math.random() * 60);
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged.push(line);
    if (acknowledged.length === killAfter) setTimeout(() => child.kill('SIGKILL'), Math.random() * 8);
  }
  const [, signal] = await exited;
  expect(signal).toBe('SIGKILL');
  return acknowledged;
}

it('opens after every kill -9 with each acknowledged key present', { timeout: 120_000 }, async () => {
  const path = join(directory, 'baobab.db');
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    acknowledged.push(...(await writeAndKill(path)));

    const raw = new DatabaseSync(path);
    expect(raw.prepare('pragma integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    raw.close();

    const store = await openSqlStore({ path });
    const stored = new Set((await store.keys.list({})).map((key) => key.id));
    await store.close();
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
  }
  expect(acknowledged.length).toBeGreaterThanOrEqual(ROUNDS);
});
