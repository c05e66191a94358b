import { afterAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, startHttpBed } from './bed.ts';

/** In the catalog, without weights and without an upstream in this test. */
const NOT_SERVED = 'baai/bge-reranker-v2-m3';

const bed = await startHttpBed({
  http: { cors_origins: ['https://app.example'] },
  // Nothing listens there, and unlike port 9 fetch does not refuse it by itself.
  models: { hf_endpoint: 'http://127.0.0.1:2' },
});
afterAll(() => bed[Symbol.asyncDispose]());

async function createKey(body: object): Promise<string> {
  const response = await bed.post('/v1/admin/keys', { account: 'default', name: 'test', ...body });
  return ((await response.json()) as { secret: string }).secret;
}

describe('a model that nothing is configured for', () => {
  it('answers 503, says what to configure and that a retry does not help', async () => {
    const answer = await bed.post('/v1/rerank', { model: NOT_SERVED, query: 'q', documents: ['d'] });
    expect(answer.status).toBe(503);
    expect([answer.headers.get('x-should-retry'), answer.headers.get('retry-after')]).toEqual(['false', null]);
    const { error } = (await answer.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('model_unavailable');
    expect(error.message).toContain('no upstream is configured for it');
    expect(error.message).not.toContain('at the moment');
  });

  it('answers the same when its weights are missing and cannot be fetched', async () => {
    for (const headers of [{}, { 'x-service-region': 'local' }, {}]) {
      const answer = await bed.fetch('/v1/embeddings', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ model: 'baai/bge-large-en-v1.5', input: 'text' }),
      });
      expect(answer.status).toBe(503);
      expect([answer.headers.get('x-should-retry'), answer.headers.get('retry-after')]).toEqual(['false', null]);
      const { error } = (await answer.json()) as { error: { message: string } };
      expect(error.message).toContain("Run 'baobab models pull baai/bge-large-en-v1.5'");
      expect(error.message).not.toMatch(/at the moment|127\.0\.0\.1/);
    }
  });

  it('is unavailable, with a reason for everyone', async () => {
    for (const key of [undefined, await createKey({ scopes: ['models'] })]) {
      const answer = await bed.fetch(`/v1/models/${NOT_SERVED}`, key === undefined ? {} : { key });
      expect(await answer.json()).toMatchObject({
        status: 'unavailable',
        status_reason: expect.stringContaining('no upstream'),
      });
    }
  });

  it('is only in the list of the whole catalog', async () => {
    const ids = async (query: string, key?: string) => {
      const answer = await bed.fetch(`/v1/models${query}`, key === undefined ? {} : { key });
      return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
    };
    expect(await ids('')).not.toContain(NOT_SERVED);
    expect(await ids('?status=all')).toContain(NOT_SERVED);
    const restricted = await createKey({ scopes: ['models', 'chat'] });
    const [first, ...rest] = await ids('', restricted);
    expect(first).toBe(CHAT);
    expect(rest).not.toContain(EMBEDDING);
    expect(await ids('?status=all', restricted)).toContain(EMBEDDING);
  });
});

describe('a key', () => {
  it('sees its own limits, budget and spend without any scope for it', async () => {
    const key = await createKey({ scopes: ['embeddings'], rpm: 7, monthly_budget_usd: 2 });
    await (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'Habari' }, key)).arrayBuffer();
    const own = (await (await bed.fetch('/v1/keys/me', { key })).json()) as {
      limits: { embedding: { rpm: number } };
      budget: { limit_usd: number; spent_usd: number; remaining_usd: number };
    };
    expect(own).toMatchObject({ object: 'key', scopes: ['embeddings'], limits: { embedding: { rpm: 7 } } });
    expect(own.budget.limit_usd).toBe(2);
    expect(own.budget.remaining_usd).toBeCloseTo(2 - own.budget.spent_usd, 9);
  });

  it('sees the budget that leaves less, and whose it is', async () => {
    await bed.post('/v1/admin/accounts', { name: 'poor', monthly_budget_usd: 1 });
    const made = await bed.post('/v1/admin/keys', { account: 'poor', name: 'rich', monthly_budget_usd: 99 });
    const { secret } = (await made.json()) as { secret: string };
    const other = await bed.post('/v1/admin/keys', { account: 'poor', name: 'other' });
    const { secret: spender } = (await other.json()) as { secret: string };
    await (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'Habari' }, spender)).arrayBuffer();
    const budgetOf = async () => {
      const { budget } = (await (await bed.fetch('/v1/keys/me', { key: secret })).json()) as {
        budget: Record<'limit_usd' | 'spent_usd' | 'spent_by_key_usd' | 'remaining_usd', number>;
      };
      expect(budget.remaining_usd).toBeCloseTo(budget.limit_usd - budget.spent_usd, 9);
      return budget;
    };
    const ofAccount = await budgetOf();
    expect(ofAccount).toMatchObject({ limit_usd: 1, limit_from: 'account', spent_by_key_usd: 0 });
    expect(ofAccount.spent_usd).toBeGreaterThan(0);
    await bed.post('/v1/admin/accounts/poor', { monthly_budget_usd: 100 });
    expect(await budgetOf()).toMatchObject({ limit_usd: 99, limit_from: 'key', spent_usd: 0 });
  });

  it('is needed to see it', async () => {
    expect((await bed.fetch('/v1/keys/me', { key: null })).status).toBe(401);
  });
});

describe('a page of an allowed origin', () => {
  const origin = 'https://app.example';

  it('gets its preflight answered and may read answers and errors', async () => {
    const headers = { origin, 'access-control-request-method': 'POST' };
    const preflight = await bed.fetch('/v1/embeddings', { method: 'OPTIONS', key: null, headers });
    expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([204, origin]);
    const refused = await bed.fetch('/v1/models', { key: null, headers: { origin } });
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, origin]);
    await Promise.all([preflight.arrayBuffer(), refused.arrayBuffer()]);
  });
});
