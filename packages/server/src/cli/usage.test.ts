import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { account } from '../../../../test/contracts/key-fixtures.ts';
import { ledgerRow } from '../../../../test/contracts/ledger.ts';
import { someEntry } from '../../../../test/fixtures/audit-entries.ts';
import { openStore } from '../adapters/store.ts';
import { runCommand } from './testing/run-command.ts';
import { usageCommand } from './usage.ts';

const directory = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
const store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.sqlite') });
await store.accounts.create(account({ id: 'acct_1', name: 'default' }), someEntry());
await store.accounts.create(account({ id: 'acct_2', name: 'team', createdAt: Date.UTC(2026, 0, 2) }), someEntry());
const day = (date: number) => Date.UTC(2026, 9, date);
await store.ledger.append([
  ledgerRow({ time: day(16) }),
  ledgerRow({ time: day(15), accountId: 'acct_2', costNanoUsd: 3_000 }),
  ledgerRow({ time: day(16), accountId: 'acct_2', costNanoUsd: 2_000 }),
]);
await store.close();
afterAll(() => rm(directory, { recursive: true, force: true }));

async function run(...args: string[]): Promise<string> {
  return (await runCommand(usageCommand, { args, dataDir: directory })).printed;
}

it('says whose usage it shows and of which time', async () => {
  const month = new Date().toISOString().slice(0, 7);
  expect(await run()).toMatch(
    new RegExp(`^account default, from ${month}-01 to now \\(UTC\\)\\n\\nDAY +REQUESTS .*  SHARE OF THE HIGHEST\\n`),
  );
  const shown = await run('--account', 'acct_2', '--start', '2026-10-15', '--end', '2026-10-16T12:00:00Z');
  expect(shown.split('\n')).toEqual([
    'account team, from 2026-10-15 to 2026-10-16T12:00:00.000Z (UTC)',
    '',
    expect.stringMatching(/^DAY /),
    expect.stringMatching(/^2026-10-15 +1 .*\$0\.000003 /),
    expect.stringMatching(/^2026-10-16 +1 .*\$0\.000002 /),
    expect.stringMatching(/^total +2 +20 .*\$0\.000005$/),
  ]);
});

it('shows every account in the order of time', async () => {
  const window = ['--all', '--start', '2026-10-01', '--end', '2026-11-01'];
  expect((await run(...window)).split('\n')).toEqual([
    'every account, from 2026-10-01 to 2026-11-01 (UTC)',
    '',
    expect.stringMatching(/^DAY +ACCOUNT +REQUESTS /),
    expect.stringMatching(/^2026-10-15 +team +1 /),
    expect.stringMatching(/^2026-10-16 +default +1 /),
    expect.stringMatching(/^2026-10-16 +team +1 /),
    expect.stringMatching(/^total +3 +30 .*\$0\.000006$/),
  ]);
  const csv = (await run(...window, '--csv', '--group-by', 'model')).split('\n');
  expect(csv[0]).toMatch(/^start,end,account,account_name,model,requests,/);
  expect(csv[1]).toMatch(/,acct_2,team,acme\/one,1,/);
  const byKey = await run('--account', 'team', ...window.slice(1), '--csv', '--group-by', 'key');
  expect(byKey).toMatch(/^start,end,key,key_name,requests,.*\n[^,]+,[^,]+,key_1,,1,/);
  expect(await run(...window, '--group-by', 'account,model')).toMatch(/\nDAY +ACCOUNT +MODEL +REQUESTS /);
  expect(JSON.parse(await run(...window, '--json'))).toMatchObject({
    buckets: [{ account: 'team' }, { account: 'default' }, { account: 'team' }],
    totals: { requests: 3, cost_usd: 0.000006, prompt_tokens: 30 },
  });
});

it('shows the days of a time zone', async () => {
  const shown = await run(
    '--account',
    'team',
    '--start',
    '2026-10-15',
    '--end',
    '2026-10-16',
    '--time-zone',
    'Asia/Tokyo',
  );
  expect(shown.split('\n')).toEqual([
    'account team, from 2026-10-15 to 2026-10-16 (Asia/Tokyo)',
    '',
    expect.stringMatching(/^DAY /),
    expect.stringMatching(/^2026-10-15 +1 .*\$0\.000003 /),
    expect.stringMatching(/^total +1 /),
  ]);
  const later = await run(
    '--account',
    'team',
    '--start',
    '2026-10-14',
    '--end',
    '2026-10-15',
    '--time-zone',
    'America/Lima',
  );
  expect(later).toMatch(/\n2026-10-14 +1 .*\$0\.000003 /);
  await expect(run('--time-zone', 'Mars')).rejects.toThrow(/time zone such as Africa\/Nairobi/);
});

it('refuses arguments that it would ignore', async () => {
  await expect(run('team')).rejects.toThrow("unexpected argument 'team'; --account NAME names an account");
  await expect(run('--all', '--account', 'team')).rejects.toThrow('--all and --account exclude each other');
  await expect(run('--account', 'nobody')).rejects.toThrow(/no account 'nobody'/);
});

it('says what is wrong with a request before it looks for the account', async () => {
  for (const [wrong, message] of [
    [['--bucket', 'week'], 'must be one of hour, day, month'],
    [['--start', 'tomorrow'], "'start'"],
    [['--group-by', 'model,foo'], 'any of model, region, key, account'],
    [['--top', '5'], "'top' needs 'groupBy'"],
    [['--top', '0', '--group-by', 'model'], "--top must be a whole number from 1 to 1000, not '0'"],
  ] as const) {
    await expect(run('--account', 'nobody', ...wrong)).rejects.toThrow(message);
  }
  expect(usageCommand.options?.find(([option]) => option.startsWith('--group-by'))?.[1]).toContain('account');
});
