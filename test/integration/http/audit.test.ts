import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDING, type HttpBed, KEY, startHttpBed } from './bed.ts';

interface Entry {
  id: string;
  action: string;
  via: string;
  actor: Record<string, string | null>;
  target: Record<string, string | null>;
  changes: { field: string; before: unknown; after: unknown }[];
  request_id: string | null;
  address: string | null;
}

interface Page {
  data: Entry[];
  has_more: boolean;
  next_cursor: string | null;
}

describe('the audit log', () => {
  let bed: HttpBed;
  let memberSecret: string;
  let memberId: string;
  let childId: string;
  const bodyOf = async (answer: Response) => (await answer.json()) as Record<string, string>;
  const list = async (query = '', key = KEY, path = '/v1/admin/audit') => {
    const answer = await bed.fetch(`${path}${query}`, { key });
    expect(answer.status).toBe(200);
    return (await answer.json()) as Page;
  };

  beforeAll(async () => {
    bed = await startHttpBed();
    await bed.post('/v1/admin/accounts', { name: 'acme', monthly_budget_usd: 12.5 });
    const member = { account: 'acme', name: 'lead', scopes: ['keys', 'chat'] };
    ({ secret: memberSecret = '', id: memberId = '' } = await bodyOf(await bed.post('/v1/admin/keys', member)));
    ({ id: childId = '' } = await bodyOf(await bed.post('/v1/keys', { name: 'ci', scopes: ['chat'] }, memberSecret)));
    await bed.post(`/v1/keys/${childId}`, { rpm: 60, expires_at: '2099-01-01T00:00:00Z' }, memberSecret);
    await bed.post(`/v1/keys/${childId}`, { rpm: 60 }, memberSecret);
    await bed.post(`/v1/keys/${childId}/revoke`, {}, memberSecret);
    await bed.post('/v1/admin/models/deprecate', { model: EMBEDDING, on: '2099-06-01' });
  });
  afterAll(() => bed[Symbol.asyncDispose]());

  it('says who changed what, from where, with old and new values', async () => {
    const { data } = await list('?account=acme');
    expect(data.map(({ action, target }) => [action, target.name])).toEqual([
      ['key.revoked', 'ci'],
      ['key.changed', 'ci'],
      ['key.created', 'ci'],
      ['key.created', 'lead'],
      ['account.created', 'acme'],
    ]);
    expect(data[1]).toMatchObject({
      via: 'api',
      actor: { type: 'key', id: memberId, name: 'lead', account_name: 'acme', host: null },
      target: { type: 'key', id: childId, account_name: 'acme' },
      changes: [
        { field: 'rpm', before: null, after: 60 },
        { field: 'expires_at', before: null, after: '2099-01-01T00:00:00.000Z' },
      ],
      request_id: expect.stringMatching(/^req_/),
      address: '127.0.0.1',
    });
    expect(data[4]?.changes).toEqual([{ field: 'monthly_budget_usd', before: null, after: 12.5 }]);
    expect(data[4]?.actor).toMatchObject({ type: 'key', name: 'first key', account_name: 'default' });
    expect(JSON.stringify(await list('?limit=200'))).not.toContain(memberSecret.slice(11));
  });

  it('has the first key, made by the server, and decisions about models', async () => {
    const { data } = await list('?actor=server');
    expect(data.map(({ action }) => action).toSorted()).toEqual(['account.created', 'key.created']);
    expect(data[0]).toMatchObject({ via: 'server', actor: { type: 'server' }, request_id: null, address: null });
    const model = await list(`?target=${encodeURIComponent(EMBEDDING)}&action=model.deprecated`);
    expect(model.data[0]?.changes).toEqual([
      { field: 'deprecated_at', before: null, after: '2099-06-01T00:00:00.000Z' },
    ]);
  });

  it('is read page by page, and by time', async () => {
    const seen: string[] = [];
    for (let query = '?limit=2', more = true; more; ) {
      const page = await list(query);
      seen.push(...page.data.map(({ id }) => id));
      more = page.has_more;
      query = `?limit=2&after=${page.next_cursor}`;
    }
    expect(seen).toEqual((await list('?limit=200')).data.map(({ id }) => id));
    expect(new Set(seen).size).toBe(seen.length);
    expect((await list('?end=2020-01-01')).data).toEqual([]);
    expect((await list('?start=2020-01-01&account=acme')).data).toHaveLength(5);
  });

  it('refuses what it does not know', async () => {
    for (const query of ['?action=key.stolen', '?after=nonsense', '?account=none', '?start=yesterday', '?limit=201']) {
      expect((await bed.fetch(`/v1/admin/audit${query}`)).status).toBe(400);
    }
    expect((await bed.fetch('/v1/admin/audit', { key: memberSecret })).status).toBe(403);
  });

  it('shows a member its own account, and not which operator changed it', async () => {
    const { data } = await list('', memberSecret, '/v1/audit');
    expect(data.map(({ action, actor }) => [action, actor.type, actor.id])).toEqual([
      ['key.revoked', 'key', memberId],
      ['key.changed', 'key', memberId],
      ['key.created', 'key', memberId],
      ['key.created', 'operator', null],
      ['account.created', 'operator', null],
    ]);
    expect(data[4]).toMatchObject({ request_id: null, address: null, actor: { account_name: null } });
    expect((await list(`?target=${childId}&action=key.revoked`, memberSecret, '/v1/audit')).data).toHaveLength(1);
  });
});
