import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, type HttpBed, startHttpBed } from './bed.ts';

describe('idempotency keys over HTTP', () => {
  let bed: HttpBed;
  beforeAll(async () => {
    bed = await startHttpBed();
  });
  afterAll(() => bed[Symbol.asyncDispose]());

  const send = (path: string, body: unknown, headers: Record<string, string>) =>
    bed.fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const usage = async (): Promise<number> => {
    const answer = await bed.fetch('/v1/usage?start=2020-01-01');
    return ((await answer.json()) as { totals: { requests: number } }).totals.requests;
  };
  const upload = (text: string, key: string, contentType = 'multipart/form-data') => {
    const boundary = `b${Math.random().toString(36).slice(2)}`;
    const part = (head: string, body: string) =>
      `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n${body}\r\n`;
    return bed.fetch('/v1/files', {
      method: 'POST',
      headers: { 'content-type': `${contentType}; boundary=${boundary}`, 'idempotency-key': key },
      body: `${part('name="purpose"', 'batch')}${part('name="file"; filename="a.jsonl"', text)}--${boundary}--\r\n`,
    });
  };

  it('runs thirty equal requests once, and bills one', async () => {
    const before = await usage();
    const body = { model: EMBEDDING, input: 'the same thing' };
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => send('/v1/embeddings', body, { 'idempotency-key': 'thirty' })),
    );
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(texts).size).toBe(1);
    expect(answers.filter((answer) => answer.headers.get('idempotent-replayed') === 'true')).toHaveLength(29);
    expect(new Set(answers.map((answer) => answer.headers.get('x-request-id'))).size).toBe(30);
    expect(await usage()).toBe(before + 1);
  });

  it('runs one of thirty equal changes, although only four have a turn', async () => {
    const body = { items: [{ type: 'message', role: 'user', content: 'Jambo' }] };
    const create = () => send('/v1/conversations', body, { 'idempotency-key': 'turns' });
    const answers = await Promise.all(Array.from({ length: 30 }, create));
    const ids = await Promise.all(answers.map(async (answer) => ((await answer.json()) as { id: string }).id));
    expect(new Set(ids).size).toBe(1);
    expect(answers.filter((answer) => answer.headers.get('idempotent-replayed') === 'true')).toHaveLength(29);
  });

  it('replays an answer only to keys that may use the model and the region', async () => {
    const body = { model: EMBEDDING, input: 'for keys with rights' };
    const keyWith = async (rights: object) => {
      const created = await bed.post('/v1/admin/keys', { name: 'key', account: 'default', ...rights });
      return ((await created.json()) as { secret: string }).secret;
    };
    const replay = async (rights: object, headers: Record<string, string> = {}) => {
      const authorization = `Bearer ${await keyWith(rights)}`;
      const answer = await send('/v1/embeddings', body, { 'idempotency-key': 'rights', authorization, ...headers });
      const { error } = (await answer.json()) as { error?: { code: string } };
      return [answer.status, error?.code ?? answer.headers.get('idempotent-replayed')];
    };
    expect((await send('/v1/embeddings', body, { 'idempotency-key': 'rights' })).status).toBe(200);
    expect(await replay({})).toEqual([200, 'true']);
    expect(await replay({ allowed_models: [CHAT] })).toEqual([403, 'model_not_allowed']);
    expect(await replay({ scopes: ['chat'] })).toEqual([403, 'insufficient_scope']);
    expect(await replay({ allowed_regions: ['eu-1'] })).toEqual([403, 'region_not_allowed']);
    // The stored answer may come from a region that this key may not use.
    expect(await replay({ allowed_regions: ['local', 'eu-1'] })).toEqual([422, 'idempotency_key_reused']);
  });

  it('stores nothing of an account with zero retention', async () => {
    await bed.post('/v1/admin/accounts', { name: 'private', zero_retention: true });
    const created = await bed.post('/v1/admin/keys', { name: 'key', account: 'private' });
    const { secret } = (await created.json()) as { secret: string };
    const headers = { 'idempotency-key': 'zero', authorization: `Bearer ${secret}` };
    const chat = { model: CHAT, messages: [{ role: 'user', content: 'hello' }] };
    for (const [body, status] of [
      [chat, 200],
      [{ ...chat, model: 'none' }, 404],
    ] as const) {
      for (let time = 0; time < 2; time += 1) {
        const answer = await send('/v1/chat/completions', body, headers);
        expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([status, null]);
      }
    }
  });

  it('replays streams as streams, with the same bytes', async () => {
    const body = { model: CHAT, messages: [{ role: 'user', content: 'hello' }], stream: true };
    const first = await send('/v1/chat/completions', body, { 'idempotency-key': 'stream' });
    const text = await first.text();
    const again = await send('/v1/chat/completions', body, { 'idempotency-key': 'stream' });
    for (const name of ['content-type', 'cache-control', 'x-accel-buffering']) {
      expect([name, again.headers.get(name)]).toEqual([name, first.headers.get(name)]);
    }
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.text()).toBe(text);
    expect(text).toContain('data: [DONE]');
  });

  it('sends current rate-limit headers with replays, which use none of the limits', async () => {
    const standing = ({ headers }: Response) =>
      ['limit', 'remaining'].flatMap((name) =>
        ['requests', 'tokens'].map((kind) => headers.get(`x-ratelimit-${name}-${kind}`)),
      );
    const made = await bed.post('/v1/admin/keys', { account: 'default', name: 'one a minute', rpm: 1 });
    const { secret } = (await made.json()) as { secret: string };
    const headers = { 'idempotency-key': 'limits', authorization: `Bearer ${secret}` };
    for (const stream of [false, true]) {
      const body = stream
        ? { model: CHAT, messages: [{ role: 'user', content: 'x' }], stream }
        : { model: EMBEDDING, input: 'x' };
      const path = stream ? '/v1/chat/completions' : '/v1/embeddings';
      const first = await send(path, body, headers);
      expect(first.status).toBe(200);
      await first.text();
      const again = await send(path, body, headers);
      const more = await send(path, body, headers);
      expect(standing(again).slice(0, 3)).toEqual(standing(first).slice(0, 3));
      expect(again.headers.get('x-ratelimit-remaining-requests')).toBe('0');
      expect(Number.parseFloat(again.headers.get('x-ratelimit-reset-requests') ?? '')).toBeGreaterThan(0);
      expect(again.headers.get('x-ratelimit-reset-tokens')).toBeTruthy();
      expect([more.status, more.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
      expect((await send(path, body, { ...headers, 'idempotency-key': 'another' })).status).toBe(429);
    }
  });

  it('sends no rate-limit headers for an unknown model', async () => {
    const body = { model: 'acme/none', input: 'x' };
    await send('/v1/embeddings', body, { 'idempotency-key': 'unknown' });
    const again = await send('/v1/embeddings', body, { 'idempotency-key': 'unknown' });
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([404, 'true']);
    expect(again.headers.has('x-ratelimit-limit-requests')).toBe(false);
  });

  it('refuses another body, also when only the region differs', async () => {
    const body = { model: EMBEDDING, input: 'one' };
    await send('/v1/embeddings', body, { 'idempotency-key': 'other' });
    for (const [changed, headers] of [
      [{ ...body, input: 'two' }, {}],
      [body, { 'x-service-region': 'local' }],
    ] as const) {
      const answer = await send('/v1/embeddings', changed, { 'idempotency-key': 'other', ...headers });
      expect(answer.status).toBe(422);
      expect(await answer.json()).toMatchObject({ error: { code: 'idempotency_key_reused' } });
    }
  });

  it('does not store a 409: the model may be served there a moment later', async () => {
    const body = { model: EMBEDDING, input: 'far away' };
    const headers = { 'idempotency-key': 'region', 'x-service-region': 'mars-1' };
    expect((await send('/v1/embeddings', body, headers)).status).toBe(409);
    const again = await send('/v1/embeddings', body, headers);
    expect(again.headers.get('idempotent-replayed')).toBeNull();
  });

  it('treats encoded and plain paths as the same', async () => {
    const body = { model: EMBEDDING, input: 'spelling' };
    await send('/v1/embeddings', body, { 'idempotency-key': 'path' });
    const again = await send('/v1/%65mbeddings', body, { 'idempotency-key': 'path' });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  it('stores no secret for a replay', async () => {
    const body = { account: 'default', name: 'shown once' };
    const first = (await (await send('/v1/admin/keys', body, { 'idempotency-key': 'secret' })).json()) as {
      secret: string;
      id: string;
    };
    const again = await send('/v1/admin/keys', body, { 'idempotency-key': 'secret' });
    expect(first.secret).toMatch(/^bao_sk_/);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.json()).toMatchObject({ id: first.id, secret: null });
  });

  it('compares uploads by their content, not by their boundaries', async () => {
    const first = (await (await upload('{"a":1}\n', 'upload')).json()) as { id: string };
    const again = await upload('{"a":1}\n', 'upload', 'Multipart/Form-Data');
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await again.json()).toMatchObject({ id: first.id });
    expect((await upload('{"a":2}\n', 'upload')).status).toBe(422);
    const list = (await (await bed.fetch('/v1/files')).json()) as { data: unknown[] };
    expect(list.data).toHaveLength(1);
  });

  it('refuses a malformed key', async () => {
    const answer = await send(
      '/v1/embeddings',
      { model: EMBEDDING, input: 'x' },
      { 'idempotency-key': 'x'.repeat(256) },
    );
    expect(answer.status).toBe(400);
  });
});
