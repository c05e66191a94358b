import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Batch } from '@baobab/core/domain/batch.ts';
import { afterAll, expect, it } from 'vitest';
import { account } from '../../../../test/contracts/key-fixtures.ts';
import { someEntry } from '../../../../test/fixtures/audit-entries.ts';
import { openStore } from '../adapters/store.ts';
import { batchesCommand } from './batches.ts';
import { runCommand } from './testing/run-command.ts';

const batch = (id: string, changes: Partial<Batch> = {}): Batch => ({
  id: `batch_${id}`,
  accountId: 'acct_1',
  keyId: 'key_1',
  endpoint: '/v1/embeddings',
  inputFileId: 'file_1',
  completionWindow: '24h',
  metadata: null,
  status: 'in_progress',
  problems: [{ code: 'invalid_json_line', message: 'This line is not valid JSON.', param: null, line: 3 }],
  outputFileId: null,
  errorFileId: null,
  resultLifetimeMs: null,
  counts: { total: 10, completed: 4, failed: 1 },
  expiredLines: 0,
  bills: null,
  createdAt: Date.UTC(2026, 0, 1),
  expiresAt: Date.UTC(2026, 0, 2),
  inProgressAt: null,
  finalizingAt: null,
  cancellingAt: null,
  endedAt: null,
  ...changes,
});

const used = { requests: 2, promptTokens: 9, completionTokens: 1, cacheReadTokens: 0, audioSeconds: 0 };
const bills = [
  { model: 'acme/one', ...used, costNanoUsd: 1_500 },
  { model: 'acme/two', ...used, costNanoUsd: 500 },
];
const directory = await mkdtemp(join(tmpdir(), 'baobab-cli-'));
// The server's own connection stays open beside the command's.
const store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.sqlite') });
await store.accounts.create(account({ name: 'default' }), someEntry());
const file = { id: 'file_1', accountId: 'acct_1', purpose: 'batch', filename: 'x', bytes: 1, sha256: '' } as const;
await store.files.create({ ...file, blobKey: 'x', createdAt: 0, expiresAt: 1 }, { items: 0, bytes: 0 });
await store.batches.create(batch('running'), 0);
await store.batches.create(batch('done', { status: 'completed', outputFileId: 'file_out', endedAt: 5, bills }), 0);
const counts = { total: 0, completed: 0, failed: 1 };
await store.batches.create(batch('invalid', { status: 'failed', counts }), 0);
afterAll(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

async function run(...args: string[]): Promise<string> {
  return (await runCommand(batchesCommand, { args, dataDir: directory })).printed;
}

it('lists batches with their progress', async () => {
  const [, first, invalid, second] = (await run('list')).split('\n');
  expect(first).toMatch(/batch_running +default +\/v1\/embeddings +in_progress +5 of 10, 1 failed +2026-01-01/);
  expect(second).toMatch(/batch_done +default +\/v1\/embeddings +completed/);
  expect(invalid).toMatch(/batch_invalid .* failed +1 of 1, 1 failed/);
  const listed = JSON.parse(await run('list', '--limit', '1', '--json'));
  expect(listed).toHaveLength(1);
  expect(listed[0]).toMatchObject({
    id: 'batch_running',
    account_id: 'acct_1',
    input_file_id: 'file_1',
    object: 'batch',
  });
  await expect(run('list', '--account', 'nobody')).rejects.toThrow(/no account 'nobody'/);
});

it('shows one batch, its files and its problems', async () => {
  const shown = await run('show', 'batch_done');
  expect(shown).toMatch(/output +file_out/);
  expect(shown).toMatch(/model +acme\/one, acme\/two\n/);
  expect(shown).toMatch(/tokens +18 prompt, 2 completion, 0 cached\n/);
  expect(await run('show', 'batch_running')).toMatch(/tokens +-\n/);
  expect(shown).toMatch(/cost +\$0.000002: acme\/one \$0.0000015, acme\/two \$0.0000005\n/);
  expect(await run('show', 'batch_running')).toMatch(/cost +-\n/);
  expect(JSON.parse(await run('show', 'batch_done', '--json'))).toMatchObject({
    cost_usd: 0.000002,
    usage: { total_tokens: 20 },
  });
  expect(shown).toContain('line 3: This line is not valid JSON.');
  expect(await run('show', 'batch_done', '--watch')).toContain('completed');
  await expect(run('show', 'batch_none')).rejects.toThrow(/no batch 'batch_none'/);
});

it('marks a batch as cancelled for the server to see', async () => {
  expect(await run('cancel', 'batch_running')).toBe('batch_running cancelling, 5 of 10, 1 failed');
  expect((await store.batches.get('batch_running'))?.status).toBe('cancelling');
  await expect(run('cancel', 'batch_done')).rejects.toThrow(/is 'completed': nothing to cancel/);
  await expect(run()).rejects.toThrow(/an action is missing/);
});
