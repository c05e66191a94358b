import { afterAll, describe, expect, it } from 'vitest';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
await bed.post('/v1/admin/accounts', { name: 'team' });
await bed.post('/v1/admin/accounts', { name: 'others' });
await bed.post('/v1/admin/accounts', { name: 'paged' });
afterAll(() => bed[Symbol.asyncDispose]());

interface Key {
  id: string;
  name: string;
  secret: string;
  scopes: string[];
  allowed_models: string[];
  expires_at: string | null;
  revoked_at: string | null;
}
type Refusal = { error: { code: string; param: string | null } };

async function issue(body: object): Promise<Key> {
  const answer = await bed.post('/v1/admin/keys', { account: 'team', name: 'key', ...body });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Key;
}
async function send<T = Key>(path: string, body: object, key: Key): Promise<T> {
  return (await (await bed.post(`/v1/keys${path}`, body, key.secret)).json()) as T;
}
const works = async ({ secret }: Key) =>
  (await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, secret)).status;

const LEADER = ['embeddings', 'usage', 'keys'];

describe('keys of the own account', () => {
  it('can be listed, created, changed, rotated and revoked', async () => {
    const leader = await issue({ name: 'leader', scopes: LEADER });
    const created = await send('', { name: 'made' }, leader);
    expect(created).toMatchObject({ name: 'made', scopes: ['embeddings', 'usage'] });
    expect(await works(created)).toBe(200);
    expect(await send(`/${created.id}`, { rpm: 5 }, leader)).toMatchObject({ rpm: 5 });
    const rotated = await send(`/${created.id}/rotate`, { grace_seconds: 0 }, leader);
    expect([await works(created), await works(rotated)]).toEqual([403, 200]);
    const revoked = await send(`/${rotated.id}/revoke`, {}, leader);
    expect(revoked.revoked_at).not.toBeNull();
    expect(await works(rotated)).toBe(403);
    const answer = await bed.fetch('/v1/keys', { key: leader.secret });
    const { data } = (await answer.json()) as { data: Key[] };
    expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining([leader.id, created.id, rotated.id]));
    expect(JSON.stringify(data)).not.toContain(leader.secret);
  });

  it('and those of all accounts can be listed in pages', async () => {
    const owner = await issue({ account: 'paged', name: 'owner', scopes: LEADER });
    const made = [owner];
    for (const name of ['one', 'two']) made.push(await send('', { name }, owner));
    const ids = made.map(({ id }) => id);
    type Page = { data: Key[]; first_id: string | null; last_id: string | null; has_more: boolean };
    const page = async (path: string, key = owner.secret) => (await (await bed.fetch(path, { key })).json()) as Page;
    expect(await page('/v1/keys')).toMatchObject({ first_id: ids[0], last_id: ids[2], has_more: false });
    for (const path of ['/v1/keys?', '/v1/admin/keys?account=paged&']) {
      const secret = path.includes('admin') ? KEY : owner.secret;
      const first = await page(`${path}limit=2`, secret);
      expect(first).toMatchObject({ first_id: ids[0], last_id: ids[1], has_more: true });
      const last = await page(`${path}limit=2&after=${first.last_id}`, secret);
      expect(last).toMatchObject({ data: [{ id: ids[2] }], first_id: ids[2], has_more: false });
      expect(await page(`${path}after=${ids[2]}`, secret)).toMatchObject({ data: [], last_id: null });
    }
    const foreign = await issue({ name: 'foreign' });
    for (const after of [foreign.id, 'key_none']) {
      const refused = await bed.fetch(`/v1/keys?after=${after}`, { key: owner.secret });
      expect([refused.status, await refused.json()]).toMatchObject([400, { error: { param: 'after' } }]);
    }
    const accounts = await page('/v1/admin/accounts?limit=1', KEY);
    expect(accounts).toMatchObject({ data: [{ name: 'default' }], has_more: true });
    const next = await page(`/v1/admin/accounts?limit=1&after=${accounts.last_id}`, KEY);
    expect(next).toMatchObject({ data: [{ name: 'team' }], has_more: true });
    expect((await bed.fetch('/v1/admin/accounts?after=acct_none')).status).toBe(400);
  });

  it('need the scope keys, which new keys do not have by themselves', async () => {
    const member = await issue({});
    expect(member.scopes).not.toContain('keys');
    expect((await bed.fetch('/v1/keys', { key: member.secret })).status).toBe(403);
    expect((await bed.fetch('/v1/keys')).status).toBe(200);
  });

  it('never get more rights than the key that asks', async () => {
    const limited = await issue({
      scopes: LEADER,
      allowed_models: ['baai/*'],
      allowed_regions: ['local'],
      expires_at: '2099-01-01T00:00:00Z',
    });
    const param = async (body: object) => (await send<Refusal>('', { name: 'x', ...body }, limited)).error.param;
    expect(await param({ scopes: ['admin'] })).toBe('scopes');
    expect(await param({ scopes: ['chat'] })).toBe('scopes');
    expect(await param({ allowed_models: [] })).toBe('allowed_models');
    expect(await param({ allowed_models: ['*'] })).toBe('allowed_models');
    expect(await param({ allowed_models: ['baai/*', 'qwen/*'] })).toBe('allowed_models');
    expect(await param({ allowed_regions: ['eu-1'] })).toBe('allowed_regions');
    expect(await param({ expires_at: null })).toBe('expires_at');
    expect(await param({ expires_at: '2099-01-02T00:00:00Z' })).toBe('expires_at');
    const narrower = await send('', { name: 'x', allowed_models: ['baai/bge-*'] }, limited);
    expect(narrower).toMatchObject({ allowed_models: ['baai/bge-*'], expires_at: '2099-01-01T00:00:00.000Z' });
    expect((await send<Refusal>(`/${narrower.id}`, { allowed_models: ['*'] }, limited)).error.param).toBe(
      'allowed_models',
    );
  });

  it('with more rights cannot be taken over or revoked', async () => {
    const leader = await issue({ scopes: LEADER });
    const wide = await issue({ scopes: ['chat', 'admin'] });
    for (const path of ['', '/rotate', '/revoke']) {
      const { error } = await send<Refusal>(`/${wide.id}${path}`, path === '' ? { name: 'mine' } : {}, leader);
      expect(error.code).toBe('key_not_allowed');
    }
  });

  it('cannot be created by a key with limits, which they would go around', async () => {
    const capped = await issue({ scopes: LEADER, monthly_budget_usd: 1 });
    const other = await issue({ scopes: ['embeddings'] });
    expect((await send<Refusal>('', { name: 'x' }, capped)).error.code).toBe('key_not_allowed');
    expect((await send<Refusal>(`/${other.id}/rotate`, {}, capped)).error.code).toBe('key_not_allowed');
    expect((await send(`/${capped.id}/rotate`, {}, capped)).secret).toBeTypeOf('string');
  });

  it('are those of the own account only', async () => {
    const leader = await issue({ scopes: LEADER });
    const foreign = await issue({ account: 'others', name: 'foreign', scopes: ['embeddings'] });
    const answer = await bed.fetch('/v1/keys', { key: leader.secret });
    expect(await answer.text()).not.toContain(foreign.id);
    for (const path of ['', '/rotate', '/revoke']) {
      const { error } = await send<Refusal>(`/${foreign.id}${path}`, path === '' ? { name: 'mine' } : {}, leader);
      expect(error).toMatchObject({ code: 'invalid_parameter' });
    }
    expect(await works(foreign)).toBe(200);
    const sent = await bed.post('/v1/keys', { name: 'x', account: 'others' }, leader.secret);
    expect(sent.status).toBe(400);
  });
});
