import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { API_KEY, type RunningServer, startServer } from '../acceptance/start-server.ts';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type PostgresServer, postgresMissing, startPostgres } from '../fixtures/postgres-server.ts';
import { type S3Server, s3Missing, startS3 } from '../fixtures/s3-server.ts';

const MODEL = 'intfloat/e5-mistral-7b-instruct';
const LINES = 400;
const LINES_BEFORE_THE_KILL = 100;
const TAKE_OVER_MS = 30_000;

const missing = postgresMissing ?? s3Missing;
if (missing !== undefined) console.warn(missing);

interface BatchBody {
  id: string;
  status: string;
  output_file_id: string | null;
  request_counts: { total: number; completed: number; failed: number };
}

describe.skipIf(missing !== undefined)('a batch of a server that is killed', () => {
  let postgres: PostgresServer;
  let s3: S3Server;
  let upstream: FakeUpstream;
  beforeAll(async () => {
    const slow = { firstByteDelayMs: 200 };
    [postgres, s3, upstream] = await Promise.all([startPostgres(), startS3(), startFakeUpstream('openai', slow)]);
  });
  afterAll(() => Promise.all([postgres.stop(), s3.stop(), upstream.close()]));

  const headers = { authorization: `Bearer ${API_KEY}` };

  async function upload(server: RunningServer): Promise<string> {
    const lines = Array.from({ length: LINES }, (_, index) =>
      JSON.stringify({
        custom_id: `line-${index}`,
        method: 'POST',
        url: '/v1/embeddings',
        body: { model: MODEL, input: `text ${index}` },
      }),
    );
    const body = new FormData();
    body.set('purpose', 'batch');
    body.set('file', new Blob([lines.join('\n')]), 'input.jsonl');
    const answer = await fetch(`${server.address}/v1/files`, { method: 'POST', headers, body });
    return ((await answer.json()) as { id: string }).id;
  }

  it('is finished by another one, with every line once in the output and in the ledger', async () => {
    const store = await postgres.createDatabase();
    const env = {
      ...s3.env,
      BAOBAB_STORE: store,
      BAOBAB_BLOBS: `s3://${s3.bucket}/batches-${Date.now()}`,
      BAOBAB_BLOBS_ENDPOINT: s3.endpoint,
      BAOBAB_LOG_FORMAT: 'json',
      BAOBAB_BATCHES_CONCURRENCY: '8',
      BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url }]),
    };
    const victim = await startServer({ env });
    const created = await fetch(`${victim.address}/v1/batches`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({
        input_file_id: await upload(victim),
        endpoint: '/v1/embeddings',
        completion_window: '24h',
      }),
    });
    expect(created.status).toBe(200);
    const { id } = (await created.json()) as BatchBody;
    await upstream.until(() => upstream.requests.length >= LINES_BEFORE_THE_KILL);
    await using survivor = await startServer({ env });
    const seen = () => upstream.requests.length;
    await victim.kill();
    const killedAt = performance.now();
    const before = seen();
    expect(before).toBeLessThan(LINES);
    await upstream.until(() => seen() > before);
    expect(performance.now() - killedAt).toBeLessThan(TAKE_OVER_MS);

    const batch = async () =>
      (await (await fetch(`${survivor.address}/v1/batches/${id}`, { headers })).json()) as BatchBody;
    await expect.poll(async () => (await batch()).status, { interval: 200 }).toBe('completed');
    const { output_file_id: output, request_counts: counts } = await batch();
    expect(counts).toMatchObject({ total: LINES, completed: LINES, failed: 0 });
    const text = await (await fetch(`${survivor.address}/v1/files/${output}/content`, { headers })).text();
    const ids = text
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
    expect(ids.toSorted()).toEqual(Array.from({ length: LINES }, (_, index) => `line-${index}`).toSorted());

    const client = new Client(store);
    await client.connect();
    const { rows } = await client.query('select count(*)::int as rows from ledger').finally(() => client.end());
    expect(rows).toEqual([{ rows: LINES }]);
  });
});
