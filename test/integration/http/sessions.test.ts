import { afterAll, describe, expect, it, vi } from 'vitest';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

interface SignedIn {
  cookie: string;
  csrf: string;
}

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  bed.fetch(path, {
    method: 'POST',
    key: null,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

async function signIn(key: string): Promise<SignedIn> {
  const answer = await post('/v1/sessions', { key });
  expect(answer.status).toBe(200);
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? '';
  const { csrf_token: csrf } = (await answer.json()) as { csrf_token: string };
  return { cookie, csrf };
}

const get = (path: string, cookie: string, headers: Record<string, string> = {}) =>
  bed.fetch(path, { key: null, headers: { cookie, ...headers } });

const codeOf = async (answer: Response) => ((await answer.json()) as { error?: { code: string } }).error?.code;

async function createKey(): Promise<{ id: string; secret: string }> {
  const answer = await bed.post('/v1/admin/keys', { account: 'default', name: 'member' });
  return (await answer.json()) as { id: string; secret: string };
}

describe('signing in', () => {
  it('exchanges a key for a cookie that scripts cannot read and other sites cannot send', async () => {
    const answer = await post('/v1/sessions', { key: KEY });
    expect(answer.headers.get('set-cookie')).toMatch(
      /^baobab_session=[\w-]{43}; Path=\/; Max-Age=3600; HttpOnly; SameSite=Strict$/,
    );
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const body = (await answer.json()) as { csrf_token: string };
    expect(body).toMatchObject({
      object: 'session',
      account: { name: 'default' },
      key: { name: 'first key', prefix: KEY.slice(0, 4) },
      region: 'local',
    });
    expect(JSON.stringify(body)).not.toContain(KEY);
  });

  it('sets a Secure cookie where public_url is HTTPS, although the connection is not', async () => {
    await using behindProxy = await startHttpBed({ public_url: 'https://api.example.com' });
    const answer = await behindProxy.fetch('/v1/sessions', { method: 'POST' });
    const cookie = answer.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(/^__Host-baobab_session=[\w-]{43}; .*; Secure$/);
    const headers = { cookie: cookie.split(';')[0] ?? '' };
    expect((await behindProxy.fetch('/v1/sessions/current', { key: null, headers })).status).toBe(200);
  });

  it('takes the key as a bearer token too', async () => {
    const answer = await bed.fetch('/v1/sessions', { method: 'POST' });
    expect(answer.status).toBe(200);
  });

  it('says who is signed in, for a cookie and for a key', async () => {
    const { cookie, csrf } = await signIn(KEY);
    const session = (await (await get('/v1/sessions/current', cookie)).json()) as Record<string, unknown>;
    expect(session).toMatchObject({ csrf_token: csrf, account: { name: 'default' } });
    expect(Date.parse(String(session.expires_at)) - Date.parse(String(session.created_at))).toBe(3_600_000);
    const byKey = (await (await bed.fetch('/v1/sessions/current')).json()) as Record<string, unknown>;
    expect(byKey).toMatchObject({ csrf_token: null, created_at: null, expires_at: null });
  });

  it('accepts the cookie instead of a key', async () => {
    const { cookie, csrf } = await signIn(KEY);
    expect((await get('/v1/models', cookie)).status).toBe(200);
    const sent = await post(
      '/v1/embeddings',
      { model: EMBEDDING, input: 'a' },
      { cookie, 'x-baobab-csrf': csrf, 'idempotency-key': 'with-a-cookie' },
    );
    expect(sent.status).toBe(200);
  });

  it('refuses changes without the token of the session', async () => {
    const [one, other] = [await signIn(KEY), await signIn(KEY)];
    const body = { model: EMBEDDING, input: 'a' };
    expect(await codeOf(await post('/v1/embeddings', body, { cookie: one.cookie }))).toBe('csrf_token_invalid');
    const wrong = await post('/v1/embeddings', body, { cookie: one.cookie, 'x-baobab-csrf': other.csrf });
    expect(wrong.status).toBe(403);
  });

  it('refuses requests that another site made the browser send', async () => {
    const { cookie } = await signIn(KEY);
    for (const site of ['cross-site', 'same-site']) {
      expect(await codeOf(await get('/v1/models', cookie, { 'sec-fetch-site': site }))).toBe('csrf_token_invalid');
    }
    expect((await get('/v1/models', cookie, { 'sec-fetch-site': 'same-origin' })).status).toBe(200);
  });

  it('refuses a made-up cookie, and prefers a key where both are sent', async () => {
    const cookie = `baobab_session=${'a'.repeat(43)}`;
    expect(await codeOf(await get('/v1/models', cookie))).toBe('session_expired');
    expect(await codeOf(await get('/v1/models', 'baobab_session=short'))).toBe('missing_api_key');
    expect((await bed.fetch('/v1/models', { headers: { cookie } })).status).toBe(200);
  });
});

describe('signing out', () => {
  it('ends the session on the server and removes the cookie', async () => {
    const { cookie, csrf } = await signIn(KEY);
    const out = await bed.fetch('/v1/sessions/current', {
      method: 'DELETE',
      key: null,
      headers: { cookie, 'x-baobab-csrf': csrf },
    });
    expect(out.headers.get('set-cookie')).toMatch(/^baobab_session=; Path=\/; Max-Age=0;/);
    expect(await codeOf(await get('/v1/models', cookie))).toBe('session_expired');
  });

  it('happens by itself when the key is revoked', async () => {
    const { id, secret } = await createKey();
    const { cookie } = await signIn(secret);
    expect((await get('/v1/models', cookie)).status).toBe(200);
    await bed.post(`/v1/admin/keys/${id}/revoke`, {});
    expect(await codeOf(await get('/v1/models', cookie))).toBe('key_revoked');
    expect(await codeOf(await post('/v1/sessions', { key: secret }))).toBe('key_revoked');
  });

  it('does not happen to rights: a session can do what its key can', async () => {
    const { secret } = await createKey();
    const { cookie } = await signIn(secret);
    expect(await codeOf(await get('/v1/admin/keys', cookie))).toBe('insufficient_scope');
  });
});

describe('guessing keys', () => {
  it('is refused after ten failures within a minute, and good keys do not count', async () => {
    for (let index = 0; index < 10; index += 1) {
      await signIn(KEY);
      expect(await codeOf(await post('/v1/sessions', { key: `guess-0123456789-${index}` }))).toBe('invalid_api_key');
    }
    const refused = await post('/v1/sessions', { key: KEY });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await bed.fetch('/v1/models')).status).toBe(200);

    // Whoever sets the clock neither ends nor lengthens the wait.
    const realNow = Date.now;
    for (const setBy of [3_600_000, -3_600_000]) {
      vi.spyOn(Date, 'now').mockImplementation(() => realNow() + setBy);
      const again = await post('/v1/sessions', { key: KEY });
      expect(again.status).toBe(429);
      expect(Number(again.headers.get('retry-after'))).toBeLessThanOrEqual(60);
      vi.restoreAllMocks();
    }
  });

  it('waits no longer for its answers when the clock is set back', async () => {
    const guess = () => bed.fetch('/v1/models', { key: 'guess-0123456789' });
    const realNow = Date.now;
    vi.spyOn(Date, 'now').mockImplementation(() => realNow() - 3_600_000);
    const startedAt = performance.now();
    expect((await guess()).status).toBe(401);
    // Counted as one failure for each second that the clock went back, it would wait for five seconds.
    expect(performance.now() - startedAt).toBeLessThan(4_000);
    vi.restoreAllMocks();
  });
});
