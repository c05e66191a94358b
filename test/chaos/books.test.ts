import { execFile } from 'node:child_process';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const AMOUNTS = 'prompt_tokens bigint, completion_tokens bigint, cost_nano_usd bigint';
const TABLES = [
  'create table accounts (id text, name text)',
  'create table ledger_series (id bigint, account_id text, model text)',
  `create table ledger (billing_id text, request_id text, series_id bigint, discount_percent int, ${AMOUNTS})`,
  ...['quarters', 'hours', 'days'].map((length) => `create table usage_${length} (requests bigint, ${AMOUNTS})`),
  "insert into accounts values ('1', 'plain'), ('2', 'batches')",
  `insert into ledger_series values (1, '1', '${MODEL}'), (2, '2', '${MODEL}')`,
  "insert into ledger values ('b1', 'r1', 1, 0, 10, 0, 1000), ('batch_1:0', 'r2', 2, 50, 20, 0, 1000)",
  ...['quarters', 'hours', 'days'].map((length) => `insert into usage_${length} values (2, 30, 0, 2000)`),
];
const CALLS = [
  { account: 'plain', promptTokens: 10, completionTokens: 0 },
  { account: 'batches', job: 'one:0', promptTokens: 20, completionTokens: 0 },
];
const ANSWERED = { account: 'plain', outcome: 'acknowledged', requestId: 'r1', promptTokens: 10, completionTokens: 0 };

describe.skipIf(postgresMissing !== undefined)('the audit of the books', () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });
  afterAll(() => postgres.stop());

  async function audit({ change = 'select 1', calls = CALLS, attempts = [ANSWERED] } = {}): Promise<string[]> {
    const directory = await mkdtempDisposable(join(tmpdir(), 'baobab-books-'));
    onTestFinished(() => directory.remove());
    const url = await postgres.createDatabase();
    const client = new Client(url);
    await client.connect();
    for (const sql of [...TABLES, change]) await client.query(sql);
    await client.end();
    await writeFile(join(directory.path, 'engine.jsonl'), calls.map((call) => `${JSON.stringify(call)}\n`).join(''));
    const batches = [{ id: 'batch_1', name: 'one', lines: 1 }];
    await writeFile(
      join(directory.path, 'clients.json'),
      JSON.stringify({ attempts, batches, responses: [], keys: [], cancelled: 0 }),
    );
    const program = join(import.meta.dirname, 'books.ts');
    return new Promise((resolve) => {
      execFile(process.execPath, [program, url, directory.path], (error, stdout, stderr) => {
        const [, ...wrong] = stdout.split('\n').filter(Boolean);
        resolve(error === null && wrong.length === 0 ? [] : [...wrong, stderr].filter(Boolean));
      });
    });
  }

  it('accepts books that agree, and finds each kind of mistake', async () => {
    const seen = await Promise.all([
      audit(),
      audit({ change: "update ledger set cost_nano_usd = 999 where billing_id = 'b1'" }),
      audit({ change: "delete from ledger where billing_id = 'b1'" }),
      audit({ change: "insert into ledger values ('b2', 'r1', 1, 0, 10, 0, 1000)" }),
      audit({ change: 'update usage_days set prompt_tokens = 31' }),
      audit({ calls: CALLS.slice(0, 1) }),
      audit({ attempts: [{ ...ANSWERED, promptTokens: 9 }] }),
    ]);
    const [good, price, unbilled, twice, sums, notRun, tokens] = seen.map((lines) => lines.join('\n'));
    expect(good).toBe('');
    expect(price).toContain('b1 costs 999, not 1000');
    expect(unbilled).toContain('r1 was answered and billed never');
    expect(twice).toContain('r1 was answered and billed twice');
    expect(twice).toContain('plain: 2 billed, 1 run');
    expect(sums).toContain('usage_days adds up to');
    expect(notRun).toContain('line 0 of batch_1 never ran');
    expect(tokens).toContain('r1: 9 + 0 tokens answered, 10 + 0 billed');
  });
});
