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

it('says that no account or key matches a search', async () => {
  expect(await run(accountsCommand, 'list', '--search', 'zz')).toBe("no account matches 'zz'");
  expect(await run(keysCommand, 'list', '--search', 'zz')).toBe("no key matches 'zz'");
});

it('refuses models that the catalog lacks with a suggestion, and warns of patterns that match none', async () => {
  await run(accountsCommand, 'create', 'default');
  const create = (models: string) =>
    runCommand(keysCommand, { args: ['create', 'ci', '--models', models, '--json'], dataDir: directory });
  await expect(create('baobab/*,baobab/embed-multilingal')).rejects.toThrow(
    "there is no model 'baobab/embed-multilingal'. Did you mean 'baobab/embed-multilingual'?",
  );
  await expect(create('baobab/chat-mini@2026-11-15')).rejects.toThrow("Did you mean 'baobab/chat-mini'?");
  const { printed, warned } = await create('baobab/chat-mini,acme/*');
  expect(warned).toBe("warning: no model matches 'acme/*' yet; 'baobab models list' shows what there is");
  const { id, allowed_models: models } = JSON.parse(printed);
  expect(models).toContain('acme/*');
  await expect(run(keysCommand, 'update', id, '--models', 'acme/writer')).rejects.toThrow('there is no model');
  expect((await create('baobab/chat-mini')).warned).toBe('');
  // The server may know more.
  await expect(create('acme/dear')).rejects.toThrow('name its configuration with --config');
  const args = ['create', 'ci', '--models', 'acme/dear', '--catalog-dir', directory];
  await expect(runCommand(keysCommand, { args, dataDir: directory })).rejects.toThrow(
    `those of ${directory} and those added`,
  );
});

it('warns of regions where nothing is served', async () => {
  const { warned } = await runCommand(keysCommand, {
    args: ['create', 'far', '--regions', 'mars'],
    dataDir: directory,
  });
  expect(warned).toBe("warning: nothing is served in the region 'mars' yet; regions: local");
});

it('warns when no key is left that can administer, with the commands that repair it', async () => {
  const own = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
  const on = (command: Command, ...args: string[]) => runCommand(command, { args, dataDir: own });
  await on(accountsCommand, 'create', 'default');
  await on(accountsCommand, 'create', 'team');
  const admin = () => on(keysCommand, 'create', 'me', '--scopes', 'all', '--json');
  const first = JSON.parse((await admin()).printed);
  const second = JSON.parse((await admin()).printed);
  expect((await on(keysCommand, 'revoke', first.id)).warned).toBe('');
  expect((await on(keysCommand, 'revoke', second.id)).warned).toContain(
    '"baobab keys create me --scopes all" makes one',
  );
  await admin();
  expect((await on(accountsCommand, 'delete', 'default', '--yes')).warned).toContain(
    '"baobab keys create me --scopes all --account \'team\'" makes one',
  );
  expect((await on(accountsCommand, 'delete', 'team', '--yes')).warned).toContain(
    '\'baobab accounts create default\', then "baobab keys create me --scopes all" makes one',
  );
  await expect(admin()).rejects.toThrow("there is no account 'default'; 'baobab accounts create default' creates it");
  await on(accountsCommand, 'create', 'default');
  expect((await admin()).warned).toBe('');
  await rm(own, { recursive: true, force: true });
});

it('shows the limits that hold and where each comes from', async () => {
  await run(accountsCommand, 'create', 'limited', '--rpm', '50');
  const created = await run(keysCommand, 'create', 'ci', '--account', 'limited', '--tpm', '1000');
  expect(created).toContain(
    'limits: 50 rpm (account), 1000 tpm\ndefault: 600 rpm and 200000 tpm of each chat or audio',
  );
  expect(await run(keysCommand, 'list', '--account', 'limited')).toContain('50 rpm (account), 1000 tpm');
  const [listed] = JSON.parse(await run(keysCommand, 'list', '--account', 'limited', '--json'));
  expect(listed.limits).toMatchObject({
    chat: { rpm: 50, rpm_from: 'account', tpm: 1000, tpm_from: 'key' },
    concurrency: null,
    monthly_budget_from: null,
  });
  const accounts = await run(accountsCommand, 'list');
  expect(accounts).toMatch(/limited +active +50 rpm, default tpm/);
  expect(accounts).toContain('default: 600 rpm');
});

it('lists the accounts and keys that a search finds', async () => {
  const { id } = JSON.parse(await run(accountsCommand, 'create', 'Harbour', '--json'));
  for (const name of ['crane', 'ship']) await run(keysCommand, 'create', name, '--account', 'Harbour');
  const namesOf = async (command: Command, search: string, ...args: string[]): Promise<string[]> => {
    const found = JSON.parse(await run(command, 'list', '--search', search, ...args, '--json'));
    return found.map(({ name }: { name: string }) => name);
  };
  expect(await namesOf(accountsCommand, 'harb')).toEqual(['Harbour']);
  expect(await namesOf(accountsCommand, id)).toEqual(['Harbour']);
  expect(await namesOf(keysCommand, 'CRANE', '--account', 'Harbour')).toEqual(['crane']);
  expect(await run(keysCommand, 'list', '--search', 'rudder')).toBe("no key matches 'rudder'");
});
