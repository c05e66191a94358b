import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { accountsCommand } from './accounts.ts';
import type { Command } from './command.ts';
import { keysCommand } from './keys.ts';
import { runCommand } from './testing/run-command.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
afterAll(() => rm(directory, { recursive: true, force: true }));

async function run(command: Command, ...args: string[]): Promise<string> {
  return (await runCommand(command, { args, dataDir: directory })).printed;
}

it('says before the first start where the first account comes from', async () => {
  await expect(run(keysCommand, 'create', 'ci')).rejects.toThrow('the first start of the server creates the first one');
});

it('prints JSON with the names and amounts of the HTTP API', async () => {
  const account = JSON.parse(await run(accountsCommand, 'create', 'team', '--monthly-budget', '12.5', '--json'));
  expect(account).toMatchObject({ object: 'account', monthly_budget_usd: 12.5, suspended_at: null, status: 'active' });
  const rights = ['--models', 'baobab/*', '--monthly-budget', '0.25'];
  const key = JSON.parse(await run(keysCommand, 'create', 'ci', '--account', 'team', ...rights, '--json'));
  expect(key).toMatchObject({
    object: 'key',
    account_id: account.id,
    allowed_models: ['baobab/*'],
    monthly_budget_usd: 0.25,
    secret: expect.stringMatching(/^bao_sk_/),
  });
  const listed = JSON.parse(await run(keysCommand, 'list', '--json'));
  expect(listed).toMatchObject([{ id: key.id, monthly_budget_usd: 0.25, last_used_at: null }]);
  expect(JSON.stringify([account, key, listed])).not.toMatch(/[a-z][A-Z]\w*":/);
});

it('warns of models that a key is limited to and the catalog lacks', async () => {
  await run(accountsCommand, 'create', 'default');
  const create = (models: string) =>
    runCommand(keysCommand, { args: ['create', 'ci', '--models', models, '--json'], dataDir: directory });
  const { printed, warned } = await create('baobab/*,baobab/embed-multilingal,baobab/chat-mini@2026-11-15,acme/*');
  expect(warned.split('\n')).toEqual([
    "warning: no model matches 'baobab/embed-multilingal'; did you mean 'baobab/embed-multilingual'?",
    "warning: no model matches 'baobab/chat-mini@2026-11-15'; did you mean 'baobab/chat-mini'?",
    "warning: no model matches 'acme/*'; 'baobab models list' shows them",
  ]);
  const { id, allowed_models: models } = JSON.parse(printed);
  expect(models).toContain('acme/*');
  const update = ['update', id, '--models', 'acme/writer'];
  const updated = await runCommand(keysCommand, { args: update, dataDir: directory });
  expect(updated.warned).toContain("no model matches 'acme/writer'");
  expect((await create('baobab/chat-mini')).warned).toBe('');
});
