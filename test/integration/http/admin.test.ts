import { afterAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

async function admin<T = Record<string, unknown>>(path: string, body: object): Promise<T> {
  const answer = await bed.post(`/v1/admin/${path}`, body);
  expect(answer.status).toBe(200);
  return (await answer.json()) as T;
}
async function refused(path: string, body: object): Promise<{ code: string; message: string; param: string | null }> {
  const answer = await bed.post(`/v1/admin/${path}`, body);
  expect(answer.status).toBe(400);
  return ((await answer.json()) as { error: { code: string; message: string; param: string | null } }).error;
}
async function embed(key: string) {
  const answer = await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' }, key);
  const { error } = (await answer.json()) as { error?: { code: string } };
  const limit = (of: string) => Number(answer.headers.get(`x-ratelimit-limit-${of}`));
  return error?.code ?? { rpm: limit('requests'), tpm: limit('tokens') };
}

describe('changes of keys and accounts over HTTP', () => {
  it('apply from the next request on', async () => {
    const account = await admin<{ id: string }>('accounts', { name: 'team', rpm: 500 });
    const { id, secret } = await admin<{ id: string; secret: string }>('keys', {
      account: 'team',
      name: 'old',
      tpm: 9_000,
      allowed_models: [CHAT],
    });
    expect(await embed(secret)).toBe('model_not_allowed');

    const changed = await admin(`keys/${id}`, { allowed_models: [], rpm: 400, name: 'new' });
    expect(changed).toMatchObject({ id, name: 'new', rpm: 400, tpm: 9_000, allowed_models: [] });
    expect(changed).not.toHaveProperty('secret');
    expect(await embed(secret)).toEqual({ rpm: 400, tpm: 9_000 });

    await admin(`keys/${id}`, { rpm: null, tpm: null });
    await admin('accounts/team', { tpm: 8_000 });
    expect(await embed(secret)).toEqual({ rpm: 500, tpm: 8_000 });

    expect(await admin(`accounts/${account.id}`, { monthly_budget_usd: 0 })).toMatchObject({
      ...{ id: account.id, object: 'account', name: 'team', rpm: 500, tpm: 8_000, monthly_budget_usd: 0 },
    });
    expect(await embed(secret)).toBe('budget_exceeded');
    await admin('accounts/team', { monthly_budget_usd: null });
    expect(await admin('accounts/team', { zero_retention: true, file_retention_days: 7 })).toMatchObject({
      zero_retention: true,
      file_retention_days: 7,
      tpm: 8_000,
    });
    expect(await admin('accounts/team', { file_retention_days: null })).toMatchObject({
      zero_retention: true,
      file_retention_days: null,
    });
    expect(await embed(secret)).toEqual({ rpm: 500, tpm: 8_000 });

    await admin(`keys/${id}`, { scopes: ['chat'] });
    expect(await embed(secret)).toBe('insufficient_scope');
  });

  it('are refused with a reason', async () => {
    const { id } = await admin<{ id: string }>('keys', { account: 'default', name: 'x' });
    expect(await refused(`keys/${id}`, { rmp: 5 })).toMatchObject({
      code: 'invalid_parameter',
      param: 'rmp',
      message: expect.stringMatching(/^'rmp' is not a field of this request\. Its fields are: name, scopes, .*rpm, /),
    });
    for (const [path, body] of [
      ['accounts', { name: 'typo', rmp: 5 }],
      ['accounts/default', { rpm: 5, tmp: 5 }],
      ['keys', { account: 'default', name: 'typo', scope: ['chat'] }],
      [`keys/${id}/rotate`, { grace: 5 }],
      ['models/deprecate', { model: CHAT, on: '2030-01-01', date: '2030-01-01' }],
      ['models/retire', { model: CHAT, version: '1' }],
    ] as const) {
      expect((await refused(path, body)).message).toContain('is not a field of this request');
    }
    expect(await refused('accounts/default', {})).toMatchObject({
      message:
        'Nothing to change was sent. These can be changed: rpm, tpm, concurrency, monthly_budget_usd, weight, zero_retention, store_prompts, file_retention_days, dialect, truncate_inputs, aliases.',
    });
    expect(await refused(`keys/${id}`, { rpm: 0 })).toMatchObject({ param: 'rpm' });
    expect(await refused(`keys/${id}`, { rpm: 2 ** 60 })).toMatchObject({ param: 'rpm' });
    expect(await refused('accounts/default', { tpm: 2 ** 60 })).toMatchObject({ param: 'tpm' });
    expect(await refused(`keys/${id}`, { expires_at: '' })).toMatchObject({ param: 'expires_at' });
    expect(await refused(`keys/${id}`, { expires_at: '2020-01-01' })).toMatchObject({ param: 'expires_at' });
    expect((await refused('keys/key_none', { rpm: 5 })).message).toBe(
      "There is no key 'key_none'. GET /v1/admin/keys lists them.",
    );
    expect((await refused('accounts/nobody', { rpm: 5 })).message).toBe(
      "There is no account 'nobody'. GET /v1/admin/accounts lists them.",
    );
    await admin(`keys/${id}/revoke`, {});
    expect((await refused(`keys/${id}`, { rpm: 5 })).message).toBe('A revoked key cannot be changed.');
  });

  it('give an account other names of models', async () => {
    const aliases = [{ name: 'text-embedding-3-small', model: EMBEDDING }];
    expect(await admin('accounts', { name: 'aliases', aliases })).toMatchObject({ aliases });
    const { secret } = await admin<{ secret: string }>('keys', { account: 'aliases', name: 'a' });
    const embedding = (key?: string) =>
      bed.post('/v1/embeddings', { model: 'text-embedding-3-small', input: 'a' }, key);
    const answer = await embedding(secret);
    expect(((await answer.json()) as { model: string }).model).toBe('text-embedding-3-small');
    expect(answer.headers.get('x-served-model')).toMatch(new RegExp(`^${EMBEDDING}@\\d{4}-\\d\\d-\\d\\d$`));
    expect((await embedding()).status).toBe(404);

    expect(await admin('accounts/aliases', { aliases: [] })).toMatchObject({ aliases: [] });
    expect((await embedding(secret)).status).toBe(404);
    expect(await refused('accounts/aliases', { aliases: [{ name: 'a b', model: EMBEDDING }] })).toMatchObject({
      param: 'aliases[0].name',
    });
    expect(await refused('accounts/aliases', { aliases: [{ name: 'a', model: 'nonsense' }] })).toMatchObject({
      param: 'aliases[0].model',
    });
    expect((await refused('accounts/aliases', { aliases: [...aliases, ...aliases] })).message).toContain('there twice');
  });

  it('suspend an account and resume it', async () => {
    const account = await admin<{ id: string }>('accounts', { name: 'late payer' });
    const { secret } = await admin<{ secret: string }>('keys', { account: account.id, name: 'x' });
    const suspended = await admin(`accounts/${account.id}/suspend`, {});
    expect(suspended).toMatchObject({ status: 'suspended', suspended_at: expect.stringMatching(/^20\d\d-/) });
    expect(await embed(secret)).toBe('account_suspended');
    const answer = await bed.fetch('/v1/models', { key: secret });
    expect(answer.status).toBe(403);
    expect(await answer.json()).toMatchObject({ error: { type: 'permission_error', code: 'account_suspended' } });
    expect(await admin('accounts/late payer/resume', {})).toMatchObject({ status: 'active', suspended_at: null });
    expect(await embed(secret)).toMatchObject({ rpm: expect.any(Number) });
    expect(await refused('accounts/default/suspend', {})).toMatchObject({
      code: 'invalid_parameter',
      message: expect.stringContaining('its own account'),
    });
    expect(await refused('accounts/none/suspend', {})).toMatchObject({ param: 'account' });
  });

  it('delete an account, whose name is then free', async () => {
    const account = await admin<{ id: string }>('accounts', { name: 'leaving' });
    const { id, secret } = await admin<{ id: string; secret: string }>('keys', { account: 'leaving', name: 'x' });
    expect(await embed(secret)).toMatchObject({ rpm: expect.any(Number) });
    const answer = await bed.fetch('/v1/admin/accounts/leaving', { method: 'DELETE' });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ id: account.id, status: 'deleted', erased_at: null });
    expect(await embed(secret)).toBe('key_revoked');
    expect(await refused(`keys/${id}/rotate`, {})).toMatchObject({ code: 'invalid_parameter' });
    expect(await refused(`accounts/${account.id}`, { rpm: 1 })).toMatchObject({ message: 'This account was deleted.' });
    expect(await refused('keys', { account: account.id, name: 'y' })).toMatchObject({ param: 'account' });
    const listed = (await (await bed.fetch('/v1/admin/accounts')).json()) as { data: { id: string; status: string }[] };
    expect(listed.data).toContainEqual(expect.objectContaining({ id: account.id, status: 'deleted' }));
    expect((await admin<{ id: string }>('accounts', { name: 'leaving' })).id).not.toBe(account.id);
    expect((await bed.fetch('/v1/admin/accounts/default', { method: 'DELETE' })).status).toBe(400);
  });

  it('are refused with halves of surrogate pairs in names', async () => {
    const invalid = { code: 'invalid_parameter' };
    expect(await refused('keys', { account: 'default', name: 'half \ud800' })).toMatchObject({
      ...invalid,
      message: "'name' must not contain halves of surrogate pairs.",
    });
    expect(await refused('accounts', { name: 'half \udc00' })).toMatchObject(invalid);
  });

  it('are refused with control characters in names', async () => {
    const { id } = await admin<{ id: string }>('keys', { account: 'default', name: 'x' });
    const invalid = { code: 'invalid_parameter' };
    expect(await refused('accounts', { name: 'a\u001b[2J' })).toMatchObject({ ...invalid, param: 'name' });
    expect(await refused('keys', { account: 'default', name: 'a\u009b' })).toMatchObject({ ...invalid, param: 'name' });
    expect(await refused(`keys/${id}`, { name: 'a\nb' })).toMatchObject({ ...invalid, param: 'name' });
    expect(await refused(`keys/${id}`, { allowed_models: ['a/*', '\r'] })).toEqual({
      ...{ ...invalid, type: 'invalid_request_error', param: 'allowed_models[1]' },
      message: "'allowed_models[1]' must not contain control characters.",
    });
  });

  it('are refused with models that do not exist, except those that a key has already', async () => {
    const wrong = `${EMBEDDING}s`;
    const expected = {
      code: 'invalid_parameter',
      message: expect.stringContaining(`there is no model '${wrong}'. Did you mean '${EMBEDDING}'?`),
    };
    const named = { account: 'default', name: 'x' };
    expect(await refused('keys', { ...named, allowed_models: ['acme/*', wrong] })).toMatchObject({
      ...expected,
      param: 'allowed_models[1]',
    });
    const aliases = [{ name: 'a', model: `${wrong}@2026-01-31` }];
    expect(await refused('accounts', { name: 'x', aliases })).toMatchObject({ ...expected, param: 'aliases[0].model' });
    const { id } = await admin<{ id: string }>('keys', { ...named, allowed_models: [CHAT], scopes: ['all'] });
    expect(await refused(`keys/${id}`, { allowed_models: [CHAT, wrong] })).toMatchObject(expected);
  });

  it('show the limits that hold and where each was set', async () => {
    await admin('accounts', { name: 'shown', rpm: 50, monthly_budget_usd: 4 });
    const key = await admin<{ limits: object }>('keys', { account: 'shown', name: 'x', tpm: 7, monthly_budget_usd: 9 });
    const budget = { monthly_budget_usd: 4, monthly_budget_from: 'account' };
    const expected = {
      chat: { rpm: 50, rpm_from: 'account', tpm: 7, tpm_from: 'key' },
      concurrency: null,
      concurrency_from: null,
      ...budget,
    };
    expect(key.limits).toMatchObject(expected);
    const list = async (path: string) =>
      ((await (await bed.fetch(`/v1/admin/${path}`)).json()) as { data: { limits: object }[] }).data;
    expect(await list('keys?account=shown')).toMatchObject([{ limits: expected }]);
    expect((await list('accounts')).at(-1)?.limits).toMatchObject({
      embedding: { rpm: 50, rpm_from: 'account', tpm: 2_000_000, tpm_from: 'default' },
      ...budget,
    });
  });

  it('are those of a session by default, in one shape', async () => {
    const { limits } = await admin<{ limits: object }>('accounts', { name: 'without-limits' });
    const session = (await (await bed.fetch('/v1/sessions/current')).json()) as { default_limits: object };
    expect(session.default_limits).toEqual(limits);
    expect(limits).toMatchObject({ chat: { rpm: 600, rpm_from: 'default' }, monthly_budget_usd: null });
  });

  it('decide which models a key lists', async () => {
    const { secret } = await admin<{ secret: string }>('keys', {
      ...{ account: 'default', name: 'restricted', allowed_models: [CHAT, 'baai/*'] },
    });
    const list = async (key: string | undefined, query = '') => {
      const answer = await bed.fetch(`/v1/models${query}`, key === undefined ? {} : { key });
      const { data } = (await answer.json()) as { data: { id: string; status: string }[] };
      return data;
    };
    const ids = (await list(secret)).map(({ id }) => id);
    expect(ids).toContain(CHAT);
    expect(ids).toContain(EMBEDDING);
    expect(ids.every((id) => id === CHAT || id.startsWith('baai/'))).toBe(true);
    expect((await bed.fetch(`/v1/models/${CHAT}`, { key: secret })).status).toBe(200);
    const all = await list(undefined, '?status=all');
    const hidden = all.find(({ id }) => !ids.includes(id))?.id ?? '';
    const answers = await Promise.all(
      [hidden, 'acme/unknown'].map(async (id) => {
        const answer = await bed.fetch(`/v1/models/${id}`, { key: secret });
        return (await answer.text()).replaceAll(id, '');
      }),
    );
    expect(answers[0]).toBe(answers[1]);
    expect(answers[0]).toContain('model_not_found');
    expect(all.length).toBeGreaterThan(ids.length);
    for (const status of ['ready', 'cold', 'unavailable']) {
      const expected = all.filter((model) => model.status === status).map(({ id }) => id);
      expect((await list(undefined, `?status=${status}`)).map(({ id }) => id)).toEqual(expected);
    }
    expect((await bed.fetch('/v1/models?status=warm')).status).toBe(400);
  });

  it('need the scope admin', async () => {
    const { id, secret } = await admin<{ id: string; secret: string }>('keys', { account: 'default', name: 'x' });
    expect((await bed.post(`/v1/admin/keys/${id}`, { scopes: ['admin'] }, secret)).status).toBe(403);
    expect((await bed.post('/v1/admin/accounts/default', { rpm: null }, secret)).status).toBe(403);
  });
});
