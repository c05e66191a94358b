import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { KINDS } from '../../../packages/core/src/errors/kinds.ts';
import { type Answer, CHAT, EMBEDDING, type HttpBed, KEY, readAnswer, startHttpBed } from './bed.ts';

const bed = await startHttpBed({
  http: { body_limit_bytes: 100_000, header_limit_bytes: 4096 },
});
afterAll(() => bed[Symbol.asyncDispose]());

const AUTHORIZED = `Host: localhost\r\nAuthorization: Bearer ${KEY}\r\n`;
const JSON_TYPE = 'Content-Type: application/json\r\n';
const get = (path: string, head = AUTHORIZED) => bed.raw(`GET ${path} HTTP/1.1\r\n${head}\r\n`);
const post = (path: string, body: string, head = AUTHORIZED + JSON_TYPE) =>
  bed.raw(`POST ${path} HTTP/1.1\r\n${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);

/** Every error has the same shape. */
function expectError(answer: Answer, code: keyof typeof KINDS, param: string | null = null): string {
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(answer.headers['x-request-id']).toMatch(/^req_[0-9a-z]{24}$/);
  const { error, ...more } = JSON.parse(answer.body);
  expect(more).toEqual({});
  const { status, type } = KINDS[code];
  expect(error).toEqual({ message: expect.any(String), type, code, param });
  expect(answer.status).toBe(status);
  expect(error.message).not.toMatch(/\n|node_modules|\.ts\b|at \w+ \(/);
  return error.message;
}

describe('addresses', () => {
  it.each(['/nope', '/v1/nope', '/v1', '/v2/nope', '/v1/embeddings/', '/V1/models', '//v1/models', '/v1/files/a/b'])(
    '%s does not exist',
    async (path) => {
      expect(expectError(await get(path), 'unknown_endpoint')).toContain(`GET ${path}`);
    },
  );

  it.each([
    ['GET', '/v1/embeddings'],
    ['GET', '/v1/chat/completions'],
    ['POST', '/v1/models'],
    ['PUT', `/v1/models/${EMBEDDING}`],
    ['DELETE', '/v1/usage'],
    ['PATCH', '/healthz'],
    ['OPTIONS', '/v1/models'],
    ['TRACE', '/v1/models'],
    ['PROPFIND', '/v1/models'],
  ])('%s is the wrong method for %s', async (method, path) => {
    const answer = await bed.raw(`${method} ${path} HTTP/1.1\r\n${AUTHORIZED}\r\n`);
    expect(expectError(answer, 'unknown_endpoint')).toContain(`${method} ${path}`);
  });

  it.each([
    ['/chat/completions', 'The base address of clients ends in /v1.'],
    ['/v1/v1/chat/completions', 'The base address has /v1 twice.'],
    ['/v1/models', 'It takes GET.'],
    ['/v1/nope', 'See /docs for those that exist.'],
  ])('POST %s says what was probably meant', async (path, hint) => {
    const answer = await bed.raw(`POST ${path} HTTP/1.1\r\n${AUTHORIZED}\r\n`);
    expect(expectError(answer, 'unknown_endpoint')).toContain(hint);
  });

  it.each([
    ['PUT', '/v1/files/file_x', 'It takes GET and DELETE.'],
    ['PUT', '/v1/conversations/conv_x', 'It takes GET, POST and DELETE.'],
    ['POST', '/v1/files/file_x/content', 'It takes GET.'],
    ['GET', '/v1/batches/batch_x/cancel', 'It takes POST.'],
    ['PUT', `/v1/models/${EMBEDDING}`, 'It takes GET.'],
    ['GET', '/v1/admin/models/a/b', 'It takes DELETE.'],
    ['GET', '/files/file_x', 'The base address of clients ends in /v1.'],
    ['POST', '/v1/embeddings/', 'Leave out the / at its end.'],
    ['PUT', '/v1/files//content', 'See /docs for those that exist.'],
    ['PUT', '/v1/files/file_x/none', 'See /docs for those that exist.'],
  ])('%s %s says it too', async (method, path, hint) => {
    const answer = await bed.raw(`${method} ${path} HTTP/1.1\r\n${AUTHORIZED}\r\n`);
    expect(expectError(answer, 'unknown_endpoint')).toContain(hint);
  });

  it.each(['/v1/models/%', '/v1/models/%zz', '/%E0%A4%A', '/v1/files/%ff'])('%s is badly encoded', async (path) => {
    expectError(await get(path), 'invalid_parameter');
  });

  it.each([
    ['group_by=model,,key', 'group_by'],
    ['group_by=team', 'group_by'],
    ['bucket=', 'bucket'],
    ['end=', 'end'],
    ['end=2025-12-31', 'end'],
  ])('refuses the usage query %s and names the parameter', async (query, param) => {
    const message = expectError(await get(`/v1/usage?start=2026-01-01&${query}`), 'invalid_parameter', param);
    expect(message).toContain(`'${param}'`);
  });

  it.each(['/v1/files?limit=true', '/v1/batches?limit=1e1', '/v1/files?limit=%201'])(
    '%s has no number',
    async (path) => {
      expectError(await get(path), 'invalid_parameter', 'limit');
    },
  );

  it('shows only the start of a very long one', async () => {
    expect(expectError(await get(`/${'x'.repeat(3000)}`), 'unknown_endpoint').length).toBeLessThan(400);
    expect(expectError(await get(`/v1/models/a/${'x'.repeat(3000)}`), 'model_not_found', 'model').length).toBeLessThan(
      400,
    );
  });

  it.each([`/v1/files/${'x'.repeat(600)}`, `/v1/files/${'x'.repeat(600)}/content`])(
    'takes an id of any length for unknown',
    async (path) => {
      expect((await get(path)).status).toBe(404);
    },
  );
});

describe('bodies', () => {
  it.each([
    ['nothing', ''],
    ['half an object', '{"model": "a'],
    ['a trailing comma', '{"model": "a",}'],
    ['two values', '{} {}'],
    ['a number that is none', '{"model": NaN}'],
    ['a byte order mark', '\ufeff{}'],
    ['HTML', '<html></html>'],
  ])('%s is not JSON', async (_, body) => {
    expectError(await post('/v1/embeddings', body), 'invalid_json');
  });

  it.each(['null', '[]', '"text"', '5', 'true', '[{"model":"a"}]'])('%s is JSON, but not an object', async (body) => {
    expect(expectError(await post('/v1/embeddings', body), 'invalid_parameter')).toBe(
      'The request body must be a JSON object.',
    );
  });

  it.each([
    'text/plain',
    'application/xml',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'nonsense',
    '',
  ])('the content type %j is not accepted', async (type) => {
    expectError(await post('/v1/embeddings', '{}', `${AUTHORIZED}Content-Type: ${type}\r\n`), 'invalid_parameter');
  });

  it('that are empty are none, whatever their type, wherever a POST needs none', async () => {
    type Operation = { requestBody?: { required?: boolean } };
    const { paths } = (await (await bed.fetch('/openapi.json')).json()) as {
      paths: Record<string, { post?: Operation }>;
    };
    const bare = Object.entries(paths).flatMap(([path, { post }]) =>
      post !== undefined && post.requestBody?.required !== true ? [path.replace(/{.*?}/g, 'some-id')] : [],
    );
    expect(bare).toContain('/v1/responses/some-id/cancel');
    expect(bare).toContain('/v1/keys/some-id/rotate');
    for (const path of bare) {
      for (const type of ['application/json', 'application/x-www-form-urlencoded']) {
        const { status, body } = await post(path, '', `${AUTHORIZED}Content-Type: ${type}\r\n`);
        expect(status).toBeLessThan(500);
        // Such as that there is no such response.
        expect(body).not.toMatch(/invalid_json|content type|body|unknown_endpoint/);
      }
    }
  });

  it('a missing content type is refused', async () => {
    expectError(await post('/v1/embeddings', '{}', AUTHORIZED), 'invalid_parameter');
  });

  it('too large ones are refused by Content-Length and by received bytes', async () => {
    const announced = await bed.raw(
      `POST /v1/embeddings HTTP/1.1\r\n${AUTHORIZED}${JSON_TYPE}Content-Length: 100001\r\n\r\n{`,
    );
    expect(expectError(announced, 'body_too_large')).toContain('100000 bytes');
    const chunk = 'x'.repeat(0xffff);
    const chunked = await bed.raw(
      `POST /v1/embeddings HTTP/1.1\r\n${AUTHORIZED}${JSON_TYPE}Transfer-Encoding: chunked\r\n\r\nffff\r\n${chunk}\r\nffff\r\n${chunk}\r\n`,
    );
    expectError(chunked, 'body_too_large');
  });

  it('the error names the field that is missing or wrong', async () => {
    expectError(await post('/v1/embeddings', '{}'), 'missing_parameter', 'model');
    expectError(await post('/v1/embeddings', JSON.stringify({ model: EMBEDDING })), 'missing_parameter', 'input');
    const wrong = { model: EMBEDDING, input: ['a', 5] };
    expectError(await post('/v1/embeddings', JSON.stringify(wrong)), 'invalid_parameter', 'input[1]');
    const message = {
      model: CHAT,
      messages: [
        { role: 'user', content: 'a' },
        { role: 'nobody', content: 'b' },
      ],
    };
    expectError(await post('/v1/chat/completions', JSON.stringify(message)), 'invalid_parameter', 'messages[1].role');
  });

  it('are not converted: a number in quotes is refused', async () => {
    const body = { model: EMBEDDING, input: 'a', dimensions: '5' };
    expectError(await post('/v1/embeddings', JSON.stringify(body)), 'invalid_parameter', 'dimensions');
  });

  it.each([
    { guided_json: 'no JSON' },
    { structured_outputs: { structural_tag: {} } },
    { response_format: { type: 'json_schema', json_schema: {} } },
  ])('that are wrong too do not change the shape of an earlier error: %j', async (wrong) => {
    const body = { model: CHAT, messages: [{ role: 'user', content: 'a' }], ...wrong };
    const head = `${AUTHORIZED}${JSON_TYPE}Idempotency-Key: a b\r\n`;
    expectError(await post('/v1/chat/completions', JSON.stringify(body), head), 'invalid_parameter', 'Idempotency-Key');
  });

  it('cannot change a prototype', async () => {
    const evil = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},';
    const answer = await post('/v1/embeddings', `${evil}"model":"${EMBEDDING}","input":"a"}`);
    expect(answer.status).toBe(200);
    expectError(await post('/v1/embeddings', `${evil}"input":"a"}`), 'missing_parameter', 'model');
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('are refused if they are nested too deeply', async () => {
    const nested = (levels: number) =>
      `{"model":"${EMBEDDING}","input":"a","extra":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    expect((await post('/v1/embeddings', nested(127))).status).toBe(200);
    expect(expectError(await post('/v1/embeddings', nested(128)), 'invalid_json')).toContain('deeper than 128 levels');
    expectError(await post('/v1/embeddings', nested(40_000)), 'invalid_json');
    const schema = `${'{"properties":{"a":'.repeat(3000)}{}${'}}'.repeat(3000)}`;
    const format = `{"type":"json_schema","json_schema":{"name":"x","schema":${schema}}}`;
    const chat = `{"model":"${CHAT}","messages":[{"role":"user","content":"a"}],"response_format":${format}}`;
    expectError(await post('/v1/chat/completions', chat), 'invalid_json');
  });
});

it('says that bodies are not unpacked', async () => {
  const packed = gzipSync(JSON.stringify({ model: EMBEDDING, input: 'a' }));
  const answer = await bed.fetch('/v1/embeddings', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: packed,
  });
  const { error } = (await answer.json()) as { error: { code: string; message: string } };
  expect(error).toMatchObject({ code: 'invalid_json', message: expect.stringContaining("'Content-Encoding: gzip'") });
});

describe('keys', () => {
  const withKey = (header: string) => get('/v1/models', `Host: localhost\r\n${header}`);
  it('missing, mistyped and unknown ones have their own errors', async () => {
    expectError(await withKey(''), 'missing_api_key');
    for (const header of ['Basic dXNlcjpwYXNz', 'bao_sk_123', 'Bearer']) {
      const message = expectError(await withKey(`Authorization: ${header}\r\n`), 'missing_api_key');
      expect(message).toContain("'Bearer <key>'");
    }
    expectError(await withKey('Authorization: Bearer bao_sk_123\r\n'), 'invalid_api_key');
    expectError(await withKey('Authorization: Bearer unknown-key-0123456789\r\n'), 'invalid_api_key');
  });

  it('are checked before anything else below /v1', async () => {
    const head = `Host: localhost\r\n${JSON_TYPE}`;
    expectError(await post('/v1/embeddings', '{broken', head), 'missing_api_key');
    expectError(await get('/v1/nope', 'Host: localhost\r\n'), 'missing_api_key');
  });

  it('are checked before the body has arrived', async () => {
    const socket = await bed.open();
    const answer = readAnswer(socket);
    socket.write(`POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n${JSON_TYPE}Content-Length: 99999\r\n\r\n{`);
    expectError(await answer, 'missing_api_key');
  });

  it('are refused if they were revoked, expired or lack a scope', async () => {
    const create = async (body: object) => {
      const answer = await bed.post('/v1/admin/keys', { account: 'default', name: 'x', ...body });
      return (await answer.json()) as { id: string; secret: string };
    };
    const models = (secret: string) => withKey(`Authorization: Bearer ${secret}\r\n`);
    const narrow = await create({ scopes: ['chat'] });
    expect(expectError(await models(narrow.secret), 'insufficient_scope')).toContain("'models'");
    const revoked = await create({});
    expect((await models(revoked.secret)).status).toBe(200);
    expect((await bed.fetch(`/v1/admin/keys/${revoked.id}/revoke`, { method: 'POST' })).status).toBe(200);
    expectError(await models(revoked.secret), 'key_revoked');
    const shortLived = await create({ expires_at: new Date(Date.now() + 3_600_000).toISOString() });
    expect((await models(shortLived.secret)).status).toBe(200);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 });
    onTestFinished(() => void vi.useRealTimers());
    expectError(await models(shortLived.secret), 'expired_api_key');
  });
});

it('delays the answers to floods of bad keys, and never those to good keys', async () => {
  await using flooded = await startHttpBed();
  const bad = `bao_sk_${'x'.repeat(40)}`;
  let left = 60;
  const sentAt = performance.now();
  let longestMs = 0;
  const floods = Array.from({ length: left }, async () => {
    const { status } = await flooded.fetch('/v1/models', { key: bad });
    left -= 1;
    longestMs = performance.now() - sentAt;
    return status;
  });
  // The first ones are not delayed.
  await expect.poll(() => left).toBeLessThanOrEqual(40);
  const goodSentAt = performance.now();
  expect((await flooded.fetch('/v1/models')).status).toBe(200);
  const goodMs = performance.now() - goodSentAt;
  expect(new Set(await Promise.all(floods))).toEqual(new Set([401]));
  expect(goodMs).toBeLessThan(longestMs);
  const metrics = await (await flooded.fetch('/metrics')).text();
  const counted = (delayed: boolean) =>
    Number(new RegExp(`refused_keys_total{code="invalid_api_key",delayed="${delayed}"} (\\d+)`).exec(metrics)?.[1]);
  expect(counted(true)).toBeGreaterThan(20);
  expect(counted(true) + counted(false)).toBe(60);
});

describe('connections', () => {
  it('are answered if their head is too large', async () => {
    const answer = await get('/v1/models', `${AUTHORIZED}X-Padding: ${'x'.repeat(5000)}\r\n`);
    expect(expectError(answer, 'invalid_parameter')).toContain('4096 bytes');
  });

  it.each([
    ['no HTTP at all', 'hello there\r\n\r\n'],
    ['TLS', Buffer.from('160301020001000001fc0303', 'hex')],
    ['a header without a name', `GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n`],
    ['two lengths', `POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}`],
    [
      'length and chunks together',
      `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
    ],
    ['a negative length', `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n`],
    ['a line break inside the address', 'GET /\n HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['an unknown version', 'GET / HTTP/9.9\r\nHost: a\r\n\r\n'],
  ])('are answered if they send %s', async (_, bytes) => {
    expectError(await bed.raw(bytes), 'invalid_parameter');
  });

  it('need a host for HTTP/1.1, not for HTTP/1.0', async () => {
    expect((await bed.raw('GET /healthz HTTP/1.0\r\n\r\n')).status).toBe(200);
    expect((await bed.raw('GET /healthz HTTP/1.1\r\n\r\n')).status).toBe(400);
  });
});

describe('slow connections', () => {
  // Of their own: on a busy machine, any request may take this long to arrive.
  let slow: HttpBed;
  beforeAll(async () => {
    slow = await startHttpBed({ http: { headers_timeout_ms: 300, request_timeout_ms: 600 } });
  });
  afterAll(() => slow[Symbol.asyncDispose]());

  it.each([
    ['head', 'GET /v1/models HTTP/1.1\r\nHost: a\r\n'],
    ['body', `POST /v1/embeddings HTTP/1.1\r\n${AUTHORIZED}${JSON_TYPE}Content-Length: 50\r\n\r\n{"model"`],
  ])('are answered if their %s takes too long', async (_, bytes) => {
    // On a busy machine the bytes may arrive when the time is over. Then nothing was sent, and there is no answer.
    const answer = await vi.waitFor(() => slow.raw(bytes), { timeout: 120_000 });
    expect(expectError(answer, 'invalid_parameter')).toContain('within the time');
  });

  it('are closed without an answer if nothing was sent', async () => {
    await expect(slow.raw('')).rejects.toThrow('the connection closed without an answer: ""');
  });
});

it('gives every answer a new id, also if the client sent one', async () => {
  const ids = await Promise.all(
    ['/healthz', '/v1/models', '/nope'].map(async (path) => {
      const answer = await bed.fetch(path, { headers: { 'x-request-id': 'mine' } });
      await answer.arrayBuffer();
      return answer.headers.get('x-request-id');
    }),
  );
  expect(new Set(ids).size).toBe(3);
  for (const id of ids) expect(id).toMatch(/^req_/);
});
