import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { accountsCommand } from './accounts.ts';
import { auditCommand } from './audit.ts';
import type { Command } from './command.ts';
import { keysCommand } from './keys.ts';
import { runCommand } from './testing/run-command.ts';

async function run(command: Command, ...args: string[]): Promise<string> {
  return (await runCommand(command, { args, dataDir: directory })).printed;
}

let secret: string;
let keyId: string;

const directory = await mkdtemp(join(tmpdir(), 'baobab-audit-'));
await run(accountsCommand, 'create', 'acme', '--monthly-budget', '50');
const created = await run(keysCommand, 'create', 'ci', '--account', 'acme', '--scopes', 'chat', '--json');
({ secret, id: keyId } = JSON.parse(created) as { secret: string; id: string });
await run(keysCommand, 'update', keyId, '--rpm', '60', '--models', 'a/*,b/*');
afterAll(() => rm(directory, { recursive: true, force: true }));

it('shows what commands changed, and who ran them', async () => {
  const shown = await run(auditCommand);
  const by = `${userInfo().username} on ${hostname()}`;
  const rows = shown.split('\n').map((line) => line.split(/ {2,}/).slice(1));
  expect(rows).toEqual([
    ['ACTION', 'TARGET', 'BY', 'FROM', 'CHANGES'],
    ['key.changed', 'ci (acme)', by, 'cli', 'allowed_models none → a/*,b/*; rpm none → 60'],
    ['key.created', 'ci (acme)', by, 'cli', 'scopes chat'],
    ['account.created', 'acme', by, 'cli', 'monthly_budget_usd 50'],
  ]);
  expect(shown).not.toContain(secret.slice(11));
});

it('filters, and prints the shape of the API as JSON', async () => {
  const entries = JSON.parse(await run(auditCommand, '--target', keyId, '--action', 'key.changed', '--json'));
  expect(entries).toMatchObject([{ object: 'audit_entry', action: 'key.changed', actor: { type: 'operator' } }]);
  expect(JSON.parse(await run(auditCommand, '--json', '--limit', '2'))).toHaveLength(2);
  expect(JSON.parse(await run(auditCommand, '--json', '--account', 'acme', '--actor', 'operator'))).toHaveLength(3);
  expect(await run(auditCommand, '--end', '2020-01-01', '--actor', 'server')).toBe(
    'no changes match --actor server --end 2020-01-01',
  );
});

it('explains wrong options', async () => {
  await expect(run(auditCommand, '--action', 'key.stolen')).rejects.toThrow('--action must be one of account.created');
  await expect(run(auditCommand, '--account', 'none')).rejects.toThrow("there is no account 'none'");
  for (const limit of ['-1', '0', '5000']) {
    await expect(run(auditCommand, '--limit', limit)).rejects.toThrow(
      `--limit must be a whole number from 1 to 200, not '${limit}'`,
    );
  }
  await expect(run(auditCommand, 'acme')).rejects.toThrow('--account NAME names an account');
  await expect(run(auditCommand, '--start', 'yesterday')).rejects.toThrow();
});
