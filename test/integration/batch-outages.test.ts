import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type PostgresServer, postgresMissing } from '../fixtures/postgres-server.ts';
import { sharedPostgres } from '../fixtures/shared-postgres.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const LINES = 24;
/** Lines that a server reads ahead: two for each that it may run. */
const WINDOW = 8;

const headers = { authorization: `Bearer ${API_KEY}` };
const inputOf = ({ body }: { body: unknown }) => [(body as { input: string | string[] }).input].flat()[0] ?? '';

describe.skipIf(postgresMissing !== undefined)('a batch whose store goes away', () => {
  let postgres: PostgresServer;
  let upstream: FakeUpstream;
  let server: RunningServer;
  let client: Client;
  beforeAll(async () => {
    [postgres, upstream] = await Promise.all([sharedPostgres(), startFakeUpstream('openai')]);
    const store = await postgres.createDatabase();
    server = await startServer({
      env: {
        BAOBAB_STORE: store,
        BAOBAB_BATCHES_CONCURRENCY: `${WINDOW / 2}`,
        BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url }]),
      },
    });
    client = new Client(store);
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await server[Symbol.asyncDispose]();
    await Promise.all([postgres.stop(), upstream.close()]);
  });

  async function post(path: string, body: FormData | string): Promise<{ id: string }> {
    const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
    const answer = await fetch(`${server.address}${path}`, { method: 'POST', headers: { ...headers, ...type }, body });
    expect(answer.status).toBe(200);
    return (await answer.json()) as { id: string };
  }

  async function order(): Promise<string> {
    const lines = Array.from({ length: LINES }, (_, index) =>
      JSON.stringify({
        custom_id: `line-${index}`,
        method: 'POST',
        url: '/v1/embeddings',
        body: { model: MODEL, input: `text ${index}` },
      }),
    );
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([lines.join('\n')]), 'input.jsonl');
    const { id: input_file_id } = await post('/v1/files', form);
    const command = { input_file_id, endpoint: '/v1/embeddings', completion_window: '24h' };
    return (await post('/v1/batches', JSON.stringify(command))).id;
  }

  const count = async (sql: string, id: string) => Number((await client.query(sql, [id])).rows[0].count);
  const billed = (id: string) => count("select count(*) from ledger where billing_id like $1 || ':%'", id);

  it('stores the results of lines that have run when the store is back, and runs no line again', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    upstream.behaviour.hold = () => opened;
    const id = await order();
    await upstream.until(() => upstream.requests.length >= WINDOW / 2);
    // Lines are billed, but their results wait for the lock.
    await client.query('begin');
    await client.query('select id from batches where id = $1 for update', [id]);
    open();
    await expect.poll(() => billed(id), { interval: 50 }).toBe(WINDOW);
    const waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and $1 <> ''`;
    // The results, and the claim of the next slice.
    await expect.poll(() => count(waiting, id), { interval: 50 }).toBe(2);
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    );
    await client.query('commit');
    const status = async () =>
      (await (await fetch(`${server.address}/v1/batches/${id}`, { headers })).json()) as Record<string, unknown>;
    await expect.poll(status, { interval: 200 }).toMatchObject({ status: 'completed' });
    expect(await status()).toMatchObject({ request_counts: { total: LINES, completed: LINES, failed: 0 } });
    const inputs = upstream.requests.map(inputOf).filter((input) => input.startsWith('text'));
    expect(inputs.toSorted()).toEqual(Array.from({ length: LINES }, (_, index) => `text ${index}`).toSorted());
    expect(await billed(id)).toBe(LINES);
  });
});
