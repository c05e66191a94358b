import { afterAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

interface Entry {
  id: string;
  status: number;
  code: string | null;
  model: string | null;
  account_id: string;
  key: string;
  [field: string]: unknown;
}
interface Page {
  data: Entry[];
  has_more: boolean;
  next_cursor: string | null;
}

const list = async (query = '', key?: string): Promise<Page> => {
  const answer = await bed.fetch(`/v1/requests${query}`, key === undefined ? {} : { key });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Page;
};
const codeOf = async (answer: Response) => ((await answer.json()) as { error?: { code: string } }).error?.code;
const embed = (key?: string, model = EMBEDDING) => bed.post('/v1/embeddings', { model, input: 'a' }, key);

async function createMember(account: string): Promise<{ id: string; secret: string; accountId: string }> {
  const { id: accountId } = (await (await bed.post('/v1/admin/accounts', { name: account })).json()) as { id: string };
  const key = await (await bed.post('/v1/admin/keys', { account, name: `key of ${account}` })).json();
  return { ...(key as { id: string; secret: string }), accountId };
}

describe('GET /v1/requests', () => {
  it('lists answered and refused requests, the newest first', async () => {
    const member = await createMember('listed');
    const answered = await embed(member.secret);
    const refused = await embed(member.secret, 'no/such-model');
    const { data, has_more: hasMore } = await list('', member.secret);
    expect(hasMore).toBe(false);
    expect(data).toMatchObject([
      {
        id: refused.headers.get('x-request-id'),
        status: 404,
        code: 'model_not_found',
        message: expect.stringMatching(/^The model 'no.such-model' does not exist/),
        model: null,
        cost_usd: 0,
      },
      {
        id: answered.headers.get('x-request-id'),
        object: 'request',
        status: 200,
        code: null,
        model: EMBEDDING,
        region: 'local',
        endpoint: '/v1/embeddings',
        account_id: member.accountId,
        key: member.id,
        key_name: 'key of listed',
        prompt_tokens: 3,
        replayed: false,
      },
    ]);
    const [entry] = data.slice(1);
    expect(Date.now() - Date.parse(String(entry?.time))).toBeLessThan(60_000);
    expect(entry?.cost_usd).toBeGreaterThan(0);
  });

  it('has the first token and the tokens of a stream', async () => {
    const member = await createMember('streamed');
    const body = { model: CHAT, stream: true, messages: [{ role: 'user', content: 'hi' }] };
    await (await bed.post('/v1/chat/completions', body, member.secret)).text();
    const { data } = await list('', member.secret);
    expect(data).toMatchObject([{ status: 200, endpoint: '/v1/chat/completions', model: CHAT }]);
    expect(data[0]?.completion_tokens).toBeGreaterThan(0);
    expect(data[0]?.first_token_ms).toBeGreaterThanOrEqual(0);
  });

  it('marks the replay of an idempotent request', async () => {
    const member = await createMember('replayed');
    const send = () =>
      bed.fetch('/v1/embeddings', {
        method: 'POST',
        key: member.secret,
        headers: { 'content-type': 'application/json', 'idempotency-key': 'once' },
        body: JSON.stringify({ model: EMBEDDING, input: 'a' }),
      });
    await (await send()).text();
    await (await send()).text();
    const { data } = await list('', member.secret);
    expect(data.map(({ replayed, cost_usd: cost }) => [replayed, cost === 0])).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  it('finds refused requests by the model that they named, if it exists', async () => {
    const member = await createMember('wrong-modality');
    const body = { model: EMBEDDING, messages: [{ role: 'user', content: 'a' }] };
    const refused = await bed.post('/v1/chat/completions', body, member.secret);
    expect(refused.status).toBe(422);
    const { data } = await list(`?model=${EMBEDDING}`, member.secret);
    expect(data).toMatchObject([
      { id: refused.headers.get('x-request-id'), status: 422, model: EMBEDDING, cost_usd: 0 },
    ]);
  });

  it('has the lines of batches', async () => {
    const member = await createMember('batched');
    const line = (id: string, model: string) =>
      JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/embeddings', body: { model, input: 'a' } });
    const form = new FormData();
    form.set('purpose', 'batch');
    form.set('file', new Blob([`${line('a', EMBEDDING)}\n${line('b', 'no/model')}\n`]), 'lines.jsonl');
    const uploaded = await bed.fetch('/v1/files', { method: 'POST', key: member.secret, body: form });
    const { id: input } = (await uploaded.json()) as { id: string };
    const request = { input_file_id: input, endpoint: '/v1/embeddings', completion_window: '24h' };
    const { id } = (await (await bed.post('/v1/batches', request, member.secret)).json()) as { id: string };
    const statusOf = async () =>
      ((await (await bed.fetch(`/v1/batches/${id}`, { key: member.secret })).json()) as { status: string }).status;
    await expect.poll(statusOf).toBe('completed');
    const { data } = await list('', member.secret);
    expect(data.map(({ status, code }) => [status, code]).sort()).toEqual([
      [200, null],
      [404, 'model_not_found'],
    ]);
    expect(data.find(({ status }) => status === 200)).toMatchObject({
      model: EMBEDDING,
      region: 'local',
      key: member.id,
      prompt_tokens: 3,
    });
  });

  it('pages and filters', async () => {
    const member = await createMember('paged');
    for (let index = 0; index < 5; index += 1)
      await (await embed(member.secret, index < 3 ? EMBEDDING : 'no/model')).text();
    const seen: string[] = [];
    let query: string | null = '?limit=2';
    while (query !== null) {
      const page: Page = await list(query, member.secret);
      seen.push(...page.data.map(({ id }) => id));
      query = page.next_cursor === null ? null : `?limit=2&after=${page.next_cursor}`;
    }
    expect(new Set(seen).size).toBe(5);
    const count = async (filter: string) => (await list(filter, member.secret)).data.length;
    expect(await count('?status=error')).toBe(2);
    expect(await count('?status=4xx')).toBe(2);
    expect(await count('?status=200')).toBe(3);
    expect(await count(`?model=${EMBEDDING}`)).toBe(3);
    expect(await count(`?key=${member.id}`)).toBe(5);
    expect(await count(`?request_id=${seen[0]}`)).toBe(1);
    expect(await count('?end=2026-01-01')).toBe(0);
    for (const wrong of ['status=600', 'status=x', 'after=zzz', 'start=soon', 'limit=0', 'limit=201']) {
      expect((await bed.fetch(`/v1/requests?${wrong}`)).status).toBe(400);
    }
  });

  it('shows a member nothing of another account', async () => {
    const [one, other] = [await createMember('one'), await createMember('other')];
    await embed(one.secret);
    const foreign = (await embed(other.secret)).headers.get('x-request-id');
    const { data } = await list('', one.secret);
    expect(data.map((entry) => entry.account_id)).toEqual([one.accountId]);
    expect((await list(`?key=${other.id}`, one.secret)).data).toEqual([]);
    expect((await list(`?request_id=${foreign}`, one.secret)).data).toEqual([]);
    for (const account of ['other', other.accountId, '*', 'no-such-account']) {
      for (const path of ['/v1/requests?', '/v1/performance?start=2026-01-01&']) {
        const answer = await bed.fetch(`${path}account=${account}`, { key: one.secret });
        expect(await codeOf(answer)).toBe('insufficient_scope');
      }
    }
    expect(await codeOf(await bed.fetch(`/v1/requests/${foreign}`, { key: one.secret }))).toBe('request_not_found');
  });

  it('shows operators one account or all', async () => {
    const member = await createMember('seen');
    const id = (await embed(member.secret)).headers.get('x-request-id');
    expect((await list('?account=seen')).data.map((entry) => entry.id)).toEqual([id]);
    expect((await list(`?account=${member.accountId}`)).data).toHaveLength(1);
    expect((await list('?account=*&limit=200')).data.map((entry) => entry.id)).toContain(id);
    expect((await list()).data.map((entry) => entry.id)).not.toContain(id);
    expect((await bed.fetch('/v1/requests?account=nobody')).status).toBe(400);
  });
});

describe('GET /v1/requests/{id}', () => {
  it('shows the upstreams that were tried; their addresses only to operators', async () => {
    const member = await createMember('tried');
    const id = (await embed(member.secret)).headers.get('x-request-id');
    const get = async (key?: string) =>
      (await (await bed.fetch(`/v1/requests/${id}`, key === undefined ? {} : { key })).json()) as {
        attempts: Record<string, unknown>[];
      };
    const seen = await get();
    expect(seen).toMatchObject({ id, status: 200, attempts: [{ region: 'local', outcome: 'ok', detail: null }] });
    expect(seen.attempts[0]?.upstream).toBe(new URL(bed.embedding.url).host);
    expect((await get(member.secret)).attempts).toMatchObject([{ upstream: null, outcome: 'ok' }]);
    expect((await bed.fetch('/v1/requests/req_none')).status).toBe(404);
  });
});

describe('GET /v1/performance', () => {
  it('counts requests and errors, and measures latency', async () => {
    const member = await createMember('measured');
    for (let index = 0; index < 3; index += 1) await (await embed(member.secret)).text();
    await (await embed(member.secret, 'no/model')).text();
    const start = new Date(Date.now() - 3_600_000).toISOString();
    const report = async (query: string) => {
      const answer = await bed.fetch(`/v1/performance?start=${start}&${query}`, { key: member.secret });
      return (await answer.json()) as { buckets: unknown[]; totals: Record<string, unknown>; time_zone: string };
    };
    const { totals, buckets, time_zone: zone } = await report('bucket=day&time_zone=africa/nairobi');
    expect(totals).toMatchObject({
      requests: 4,
      succeeded: 3,
      client_errors: 1,
      server_errors: 0,
      first_token_ms: null,
    });
    expect((totals.latency_ms as { p99: number }).p99).toBeGreaterThan(0);
    expect(zone).toBe('Africa/Nairobi');
    expect(buckets.length).toBeGreaterThan(0);
    for (const bucket of ['five_minutes', 'hour', 'month']) {
      expect((await report(`bucket=${bucket}`)).totals).toMatchObject({ requests: 4 });
    }
    expect((await report(`model=${CHAT}`)).totals).toMatchObject({ requests: 0, latency_ms: null });
  });

  it('refuses what it does not understand', async () => {
    for (const query of ['', 'start=2026-01-01&bucket=week', 'start=2026-01-01&time_zone=Mars/Base']) {
      expect((await bed.fetch(`/v1/performance?${query}`)).status).toBe(400);
    }
    const tooMany = await bed.fetch('/v1/performance?start=2020-01-01&bucket=five_minutes');
    expect(tooMany.status).toBe(422);
  });
});
