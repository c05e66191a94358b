import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { announceServer } from '../control/running-servers.ts';
import { startControlServer } from '../control/server.ts';
import { accountsCommand } from './accounts.ts';
import { batchesCommand } from './batches.ts';
import type { Command } from './command.ts';
import { keysCommand } from './keys.ts';
import { modelsCommand } from './models/models.ts';
import { elsewhereText } from './store-for-reading.ts';
import { runCommand } from './testing/run-command.ts';
import { usageCommand } from './usage.ts';

let directory: string;
let dataDir: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
  dataDir = join(directory, 'absent');
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const run = (command: Command, ...args: string[]) =>
  runCommand(command, {
    args,
    dataDir,
    env: {
      BAOBAB_MODELS_HF_ENDPOINT: 'http://127.0.0.1:9',
      npm_config_registry: 'http://127.0.0.1:9',
      PIP_INDEX_URL: 'http://127.0.0.1:9',
      HOME: directory,
    },
  });

it.each([
  ['keys list', keysCommand, ['list']],
  ['accounts list', accountsCommand, ['list']],
  ['usage', usageCommand, []],
  ['batches list', batchesCommand, ['list']],
  ['batches show', batchesCommand, ['show', 'batch_1']],
] as const)('%s names a data directory without a store and creates nothing', async (_, command, args) => {
  await expect(run(command, ...args)).rejects.toThrow(`there is no store in ${dataDir}`);
  expect(existsSync(dataDir)).toBe(false);
});

it('models list works without a store and creates nothing', async () => {
  const { printed } = await run(modelsCommand, 'list');
  expect(printed).toContain('baobab/embed-multilingual');
  expect(existsSync(dataDir)).toBe(false);
});

it('names at most one server on another data directory', () => {
  expect(elsewhereText([])).toBe('');
  expect(elsewhereText(['/a'])).toBe('a server is running on /a; --data-dir /a shows that one');
  expect(elsewhereText(['/a', '/b'])).toBe('2 servers are running on other directories; choose one with --data-dir');
});

it('mentions a server on another data directory', async () => {
  const other = join(directory, 'other');
  const control = await startControlServer(other, {
    engines: async () => [],
    isReady: async () => true,
    reloadCatalog: async () => {},
  });
  const withdraw = await announceServer(other);
  // Other servers may be running on the machine.
  const elsewhere = new RegExp(`a server is running on ${other}; --data-dir |[0-9]+ servers are running on other`);
  await expect(run(keysCommand, 'list')).rejects.toThrow(elsewhere);
  await expect(run(modelsCommand, 'ps')).rejects.toThrow(`no server is running on ${dataDir}`);
  await run(accountsCommand, 'create', 'team');
  const { printed, warned } = await run(keysCommand, 'list');
  expect(printed).toBe(`no keys in ${dataDir}`);
  expect(warned).toMatch(elsewhere);
  expect((await run(keysCommand, 'list', '--data-dir', dataDir)).warned).toBe('');
  await control.close();
  // Killed servers leave their entry behind.
  expect((await run(keysCommand, 'list')).warned).not.toContain(other);
  await withdraw();
});

it('says when a data directory cannot be read, instead of taking it for empty', async () => {
  const usual = dataDir;
  dataDir = join(directory, 'unreadable');
  await mkdir(dataDir);
  // Fails for root too, which may read every directory.
  for (const name of ['baobab.sqlite', 'control.sock']) await symlink(name, join(dataDir, name));
  await expect(run(keysCommand, 'list')).rejects.toThrow(
    `The data directory ${dataDir} cannot be read: its links lead back to themselves`,
  );
  await expect(run(modelsCommand, 'ps')).rejects.toThrow(
    `the server on ${dataDir} cannot be asked: its links lead back to themselves`,
  );
  dataDir = usual;
});

it('looks for a configured store where it is, whatever the data directory holds', async () => {
  const file = join(directory, 'store');
  await writeFile(file, 'postgres://127.0.0.1:1/baobab');
  dataDir = join(directory, 'fresh');
  await expect(run(keysCommand, 'list', '--store-file', file)).rejects.toThrow(
    'PostgreSQL at 127.0.0.1:1 cannot be reached: the connection was refused',
  );
});
