import { execFile } from 'node:child_process';
import { mkdtempDisposable, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import fastCheck from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { CHAT, EMBEDDING, KEY, startHttpBed } from './bed.ts';

const ROOT = join(import.meta.dirname, '../../..');

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

const text = async (path: string) => (await bed.fetch(path, { key: null })).text();

describe('routes without a key', () => {
  it('/healthz and /readyz', async () => {
    expect(await text('/healthz')).toBe('{"status":"ok"}');
    expect(await text('/readyz')).toBe('{"status":"ready","reasons":[]}');
  });

  it('/openapi.json is the committed document', async () => {
    const committed = await readFile(join(ROOT, 'docs/openapi.json'), 'utf8');
    expect(JSON.parse(await text('/openapi.json')), 'run `npm run openapi`').toEqual(JSON.parse(committed));
  });

  it('/openapi.json is what `npm run openapi` writes', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'openapi-'));
    const path = join(directory.path, 'openapi.json');
    await promisify(execFile)(process.execPath, [join(ROOT, 'scripts/openapi.ts'), path]);
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(JSON.parse(await text('/openapi.json')));
  });

  it('/openapi.json describes every route with summary and errors, and no route outside', async () => {
    const document = JSON.parse(await text('/openapi.json'));
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining([
        '/v1/models',
        '/v1/embeddings',
        '/v1/chat/completions',
        '/v1/files',
        '/v1/usage',
        '/v1/admin/keys',
      ]),
    );
    for (const [path, operations] of Object.entries<Record<string, Operation>>(document.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        expect(operation.summary, `${method} ${path}`).toBeTruthy();
        if (path.startsWith('/v1'))
          expect(Object.keys(operation.responses), path).toEqual(expect.arrayContaining(['401', '403']));
        expect(path).not.toContain('*');
      }
    }
  });

  it('/openapi.json describes forms, headers and bytes, which no route schema checks', async () => {
    const source = await text('/openapi.json');
    const { paths, components } = JSON.parse(source);
    const form = (path: string) => paths[path].post.requestBody.content['multipart/form-data'].schema;
    expect(form('/v1/files').required).toEqual(['file', 'purpose']);
    expect(Object.keys(form('/v1/audio/transcriptions').properties)).toEqual(
      expect.arrayContaining(['file', 'file_id', 'model', 'language', 'timestamp_granularities[]', 'stream']),
    );
    expect(Object.keys(form('/v1/audio/translations').properties).sort()).toEqual(
      ['file', 'file_id', 'model', 'prompt', 'response_format', 'temperature'].sort(),
    );
    expect(paths['/v1/audio/transcriptions'].post.requestBody.content['application/json']).toBeDefined();
    const names = (operation: Operation) => operation.parameters?.map(({ name }) => name) ?? [];
    expect(names(paths['/v1/embeddings'].post)).toEqual(['account', 'Idempotency-Key', 'X-Service-Region']);
    expect(names(paths['/v1/batches'].post)).toEqual(['account', 'Idempotency-Key']);
    expect(names(paths['/v1/usage'].get)).not.toContain('Idempotency-Key');
    const { responses } = paths['/v1/files/{file_id}/content'].get;
    expect(Object.keys(responses[206].content)).toEqual(['application/octet-stream']);
    for (const [, kind = '', name = ''] of source.matchAll(/"#\/components\/(\w+)\/([^"]+)"/g)) {
      expect(components[kind], name).toHaveProperty([name]);
    }
  });

  it('/openapi.json gives the Messages API its own shape of errors, for every status', async () => {
    const { paths } = JSON.parse(await text('/openapi.json'));
    for (const [path, name] of [
      ['/v1/messages', 'MessagesError'],
      ['/v1/messages/count_tokens', 'MessagesError'],
      ['/v1/chat/completions', 'Error'],
    ] as const) {
      const answers = Object.entries<{ content: unknown }>(paths[path].post.responses);
      const failures = answers.filter(([status]) => Number(status) >= 400);
      expect(failures.map(([status]) => status)).toEqual(expect.arrayContaining(['404', '413', '422', '429', '503']));
      for (const [, { content }] of failures) {
        expect(content).toEqual({ 'application/json': { schema: { $ref: `#/components/schemas/${name}` } } });
      }
    }
  });

  it('/openapi.json describes the headers of answers', async () => {
    const { paths } = JSON.parse(await text('/openapi.json'));
    const answer = await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'a' });
    const sent = [...answer.headers.keys()].filter((name) => name.startsWith('x-'));
    const told = Object.keys(paths['/v1/embeddings'].post.responses[200].headers).map((name) => name.toLowerCase());
    expect(told).toEqual(expect.arrayContaining(sent));
    expect(sent).toHaveLength(8);
  });

  it('/openapi.json describes every field that can be sent', async () => {
    const { paths } = JSON.parse(await text('/openapi.json'));
    const silent = (schema: Field, path: string): string[] =>
      Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
        ...(field.description === undefined ? [`${path} ${name}`] : []),
        ...silent(field, `${path} ${name}`),
      ]);
    for (const [path, operations] of Object.entries<Record<string, Operation>>(paths)) {
      for (const { requestBody, parameters = [] } of Object.values(operations)) {
        for (const { schema } of Object.values(requestBody?.content ?? {})) expect(silent(schema, path)).toEqual([]);
        for (const { name, description } of parameters) expect(description, `${path} ${name}`).toBeTruthy();
      }
    }
  });

  it('/docs is a page that loads only scripts of this server', async () => {
    const answer = await bed.fetch('/docs', { key: null });
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = answer.headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    const scripts = [...(await answer.text()).matchAll(/<script src="(.*?)"><\/script>/g)].map(([, path = '']) => path);
    expect(scripts).toHaveLength(2);
    for (const path of scripts) {
      const script = await bed.fetch(path, { key: null });
      expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
      expect(script.headers.get('cache-control')).toContain('immutable');
      expect((await script.text()).length).toBeGreaterThan(100);
    }
    expect((await bed.fetch('/docs/assets/viewer-old.js', { key: null })).status).toBe(404);
  });

  it('/metrics counts requests by route, status and model, and reports latency, load, event loop and process', async () => {
    await bed.post('/v1/embeddings', { model: `${EMBEDDING}`, input: 'a' });
    await bed.fetch('/v1/nope');
    const metrics = await text('/metrics');
    expect(metrics).toMatch(
      new RegExp(
        `baobab_http_requests_total{method="POST",route="/v1/embeddings",status="200",model="${EMBEDDING}"} [1-9]`,
      ),
    );
    expect(metrics).toMatch(/baobab_http_requests_total{method="GET",route="unknown",status="404",model=""} [1-9]/);
    expect(metrics).toMatch(
      /baobab_http_request_duration_seconds_bucket{le="\+Inf",method="POST",route="\/v1\/embeddings"} [1-9]/,
    );
    for (const name of ['http_requests_in_flight 1', 'nodejs_eventloop_lag_seconds', 'process_resident_memory_bytes']) {
      expect(metrics).toContain(`baobab_${name}`);
    }
  });
});

interface Field {
  description?: string;
  properties?: Record<string, Field>;
}

interface Operation {
  summary?: string;
  parameters?: { name: string; description?: string }[];
  requestBody?: { content: Record<string, { schema: Field }> };
  responses: object;
}

describe('random input', () => {
  const word = fastCheck.oneof(
    fastCheck.constantFrom(
      'model',
      'input',
      'messages',
      'role',
      'content',
      'query',
      'documents',
      'tools',
      'stream',
      'n',
      'seed',
    ),
    fastCheck.constantFrom(
      'response_format',
      'tool_choice',
      'stop',
      'logit_bias',
      'max_tokens',
      'name',
      'account',
      'scopes',
      'on',
    ),
    fastCheck.string({ maxLength: 5 }),
  );
  const leaf = fastCheck.oneof(
    fastCheck.constantFrom(
      CHAT,
      EMBEDDING,
      `${CHAT}@2026-11-15`,
      'user',
      'json_schema',
      'auto',
      '\ud800',
      '\u0000',
      '2026-02-30',
    ),
    fastCheck.constantFrom(null, true, 0, -1, 1e308, 0.5, '', [], {}),
    fastCheck.string({ maxLength: 8, unit: 'binary' }),
    fastCheck.integer(),
  );
  const { value } = fastCheck.letrec((tie) => ({
    value: fastCheck.oneof(
      { depthSize: 'small' },
      leaf,
      fastCheck.array(tie('value'), { maxLength: 3 }),
      tie('object'),
    ),
    object: fastCheck.dictionary(word, tie('value'), { maxKeys: 5 }),
  }));
  /** Bodies that pass the first checks and ones that do not. */
  const body = fastCheck.oneof(
    value,
    fastCheck
      .tuple(fastCheck.constantFrom(CHAT, EMBEDDING), fastCheck.dictionary(word, value, { maxKeys: 5 }))
      .map(([model, more]) => ({
        model,
        messages: [{ role: 'user', content: 'a' }],
        input: 'a',
        prompt: 'a',
        ...more,
      })),
  );

  it.each([
    '/v1/embeddings',
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/rerank',
    '/v2/rerank',
    '/v1/audio/transcriptions',
    '/v1/audio/translations',
    '/v1/admin/accounts',
    '/v1/admin/keys',
    '/v1/admin/accounts/none',
    '/v1/admin/keys/none',
    '/v1/admin/keys/none/rotate',
    '/v1/admin/models/deprecate',
    '/v1/admin/models/retire',
    '/v1/batches',
    '/v1/files',
  ])('as the body of %s never gives a 500', async (path) => {
    const check = fastCheck.asyncProperty(body, async (given) => {
      const answer = await bed.post(path, given);
      const shown = await answer.text();
      expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
      expect([200, 400, 403, 404, 409, 413, 422, 429, 503], `${JSON.stringify(given)} → ${shown}`).toContain(
        answer.status,
      );
      if (answer.status === 200) return;
      expect(JSON.parse(shown)).toEqual({
        error: {
          message: expect.any(String),
          type: expect.any(String),
          code: expect.any(String),
          param: given === undefined ? null : expect.toSatisfy((param) => param === null || typeof param === 'string'),
        },
      });
    });
    await fastCheck.assert(check, { seed: 42, numRuns: 60 });
  });

  it('as path or query of a GET never gives a 500', async () => {
    const routes = [
      '/v1/models',
      '/v1/models/',
      '/v1/files',
      '/v1/files/',
      '/v1/usage',
      '/v1/batches',
      '/v1/batches/',
      '/v1/admin/keys',
      '/',
    ];
    const query = fastCheck.dictionary(
      fastCheck.constantFrom(
        'modality',
        'region',
        'provider',
        'purpose',
        'limit',
        'after',
        'order',
        'start',
        'end',
        'bucket',
        'group_by',
        'account',
      ),
      fastCheck.oneof(
        fastCheck.constantFrom('chat', '2026-01-01', '-1', '1e9', 'day', 'model,key', 'asc', 'null'),
        fastCheck.string({ maxLength: 6, unit: 'binary' }),
      ),
    );
    const check = fastCheck.asyncProperty(
      fastCheck.constantFrom(...routes),
      fastCheck.string({ maxLength: 6, unit: 'binary' }),
      query,
      async (route, tail, given) => {
        const encoded = new URLSearchParams(given).toString();
        const answer = await bed.fetch(`${route}${encodeURIComponent(Buffer.from(tail).toString())}?${encoded}`);
        await answer.arrayBuffer();
        expect([200, 400, 404, 422], `${route} ${JSON.stringify(tail)} ${encoded}`).toContain(answer.status);
      },
    );
    await fastCheck.assert(check, { seed: 42, numRuns: 200 });
  });
});

describe('shutdown', () => {
  it('lets a running stream end, accepts no new connection, and does not wait for idle ones', async () => {
    const other = await startHttpBed({ http: { drain_timeout_ms: 20_000 } });
    const gate = Promise.withResolvers<void>();
    other.chat.script.push(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = (delta: object, finish: string | null) =>
        response.write(
          `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
        );
      chunk({ role: 'assistant', content: 'begun' }, null);
      await gate.promise;
      chunk({ content: ' and ended' }, 'stop');
      response.end('data: [DONE]\n\n');
    });
    const idle = await other.open();
    idle.write(`GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`);
    await new Promise((resolve) => idle.once('data', resolve));

    const answer = await other.post('/v1/chat/completions', {
      model: CHAT,
      messages: [{ role: 'user', content: 'a' }],
      stream: true,
    });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    if (reader === undefined) throw new Error('no stream');
    let seen = (await reader.read()).value ?? '';
    let closed = false;
    const closing = other[Symbol.asyncDispose]().then(() => {
      closed = true;
    });
    await expect
      .poll(() =>
        other.open().then(
          () => 'open',
          (error) => error.code,
        ),
      )
      .toBe('ECONNREFUSED');
    expect(closed).toBe(false);
    gate.resolve();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) seen += piece.value;
    expect(seen).toContain('begun');
    expect(seen).toContain(' and ended');
    expect(seen.trimEnd().endsWith('data: [DONE]')).toBe(true);
    await closing;
    await turn();
    idle.destroy();
  });

  it('ends what is still running at the deadline with an error', async () => {
    const other = await startHttpBed({ http: { drain_timeout_ms: 200 } });
    other.chat.behaviour.stallAfterChunks = 3;
    const answer = await other.post('/v1/chat/completions', {
      model: CHAT,
      messages: [{ role: 'user', content: 'a' }],
      stream: true,
    });
    const [cut] = await Promise.all([answer.text(), other[Symbol.asyncDispose]()]);
    expect(cut).not.toContain('[DONE]');
    expect(JSON.parse(cut.trimEnd().split('data: ').at(-1) ?? '')).toMatchObject({
      error: { code: 'model_unavailable', message: expect.stringContaining('shutting down') },
    });
  });
});

it('answers each request of one connection, in order', async () => {
  const socket = await bed.open();
  socket.setEncoding('latin1');
  let seen = '';
  socket.on('data', (chunk) => {
    seen += chunk;
  });
  const one = `GET /v1/models/none/such HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
  socket.write(one + one.replace('none/such', 'other/such') + one.replace('GET /v1/models/none/such', 'GET /healthz'));
  await expect.poll(() => seen.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 404', 'HTTP/1.1 200']);
  expect(seen.indexOf('none/such')).toBeLessThan(seen.indexOf('other/such'));
  socket.destroy();
});
