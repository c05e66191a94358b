import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { PassThrough } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DAY_MS } from '../../packages/core/src/domain/time/durations.ts';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type Caller, createFileBed, type FileBed } from '../fixtures/file-bed.ts';

const BOUNDARY = 'b0undary';
type Part = { name: string; value: string | Buffer; filename?: string };

function form(...parts: Part[]): Buffer {
  const bytes = parts.flatMap(({ name, value, filename }) => [
    Buffer.from(
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n\r\n`,
    ),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...bytes, Buffer.from(`--${BOUNDARY}--\r\n`)]);
}

describe('files over HTTP', () => {
  let bed: FileBed;
  let server: FastifyInstance;
  let caller: Caller;
  beforeAll(async () => {
    bed = await createFileBed({ maxBytes: 1_000_000 });
    server = await bed.server();
    caller = await bed.caller();
  });
  afterAll(() => bed.close());

  const send = (payload: Buffer, { authorization }: Caller = caller, headers: Record<string, string> = {}) =>
    server.inject({
      method: 'POST',
      url: '/files',
      headers: { authorization, 'content-type': `multipart/form-data; boundary=${BOUNDARY}`, ...headers },
      payload,
    });
  const call = (method: 'GET' | 'HEAD' | 'DELETE', url: string, headers: Record<string, string> = {}, who = caller) =>
    server.inject({ method, url, headers: { authorization: who.authorization, ...headers } });
  const file = (value: string | Buffer, filename = 'in.jsonl'): Part => ({ name: 'file', value, filename });
  const purpose = (value: string): Part => ({ name: 'purpose', value });

  it('stores a file with its purpose before or behind it and gives the same bytes back', async () => {
    const bytes = randomBytes(300_000);
    for (const parts of [
      [purpose('batch'), file(bytes, 'Übung.bin')],
      [file(bytes, 'Übung.bin'), purpose('batch')],
    ]) {
      const answer = await send(form(...parts));
      expect(answer.statusCode).toBe(200);
      const stored = answer.json();
      expect(stored).toMatchObject({
        object: 'file',
        purpose: 'batch',
        filename: 'Übung.bin',
        bytes: 300_000,
        status: 'processed',
      });
      expect(stored.id).toMatch(/^file_[0-9a-z]{24}$/);
      expect(Date.parse(stored.expires_at) - Date.parse(stored.created_at)).toBe(30 * DAY_MS);
      expect((await call('GET', `/files/${stored.id}`)).json()).toEqual(stored);
      const content = await call('GET', `/files/${stored.id}/content`);
      expect(content.rawPayload.equals(bytes)).toBe(true);
      expect(content.headers).toMatchObject({
        'content-type': 'application/octet-stream',
        'content-disposition': `attachment; filename="_bung.bin"; filename*=UTF-8''%C3%9Cbung.bin`,
        'content-length': '300000',
        'accept-ranges': 'bytes',
        etag: `"${createHash('sha256').update(bytes).digest('hex')}"`,
      });
    }
  });

  it('stores one whole file when the answer of the store is lost and the upload is sent again with its key', async () => {
    const who = await bed.caller();
    const create = bed.store.files.create;
    const lost = vi.spyOn(bed.store.files, 'create').mockImplementationOnce(async (...given) => {
      await create(...given);
      throw new StoreUnavailableError('the connection broke during the commit');
    });
    const upload = () => send(form(purpose('batch'), file('{}')), who, { 'idempotency-key': 'upload-1' });
    expect((await upload()).statusCode).toBe(503);
    const second = await upload();
    expect(second.statusCode).toBe(200);
    expect((await upload()).json()).toEqual(second.json());
    expect((await call('GET', '/files', {}, who)).json().data).toEqual([second.json()]);
    expect((await call('GET', `/files/${second.json().id}/content`, {}, who)).payload).toBe('{}');
    lost.mockRestore();
  });

  it('answers errors in the usual form when the store fails a second time, and hides why', async () => {
    const who = await bed.caller();
    const away = async () => {
      throw new StoreUnavailableError('PostgreSQL at db.internal does not answer');
    };
    const upload = (key: string, ...parts: Part[]) => send(form(...parts), who, { 'idempotency-key': key });
    const failures = [
      vi.spyOn(bed.store.files, 'create').mockImplementationOnce(away),
      vi.spyOn(bed.store.idempotency, 'release').mockImplementationOnce(away),
      vi.spyOn(bed.store.idempotency, 'abandon').mockImplementationOnce(away),
    ];
    const failed = await upload('away', purpose('batch'), file('{}'));
    const tooMany = vi.spyOn(bed.store.files, 'create').mockImplementationOnce(async () => false);
    const refused = await upload('refused', purpose('batch'), file('{}'));
    for (const answer of [failed, refused]) {
      expect(answer.statusCode).toBe(503);
      expect(answer.json().error).toMatchObject({ code: 'storage_unavailable' });
      expect(answer.payload).not.toContain('db.internal');
    }
    for (const failure of [...failures, tooMany]) failure.mockRestore();
  });

  it('stores an empty file', async () => {
    const { id, bytes } = (await send(form(purpose('batch'), file('')))).json();
    expect(bytes).toBe(0);
    expect((await call('GET', `/files/${id}/content`)).rawPayload).toHaveLength(0);
  });

  it('refuses what is missing, unsupported or no form, and keeps nothing of it', async () => {
    const before = await bed.blobFiles();
    const cases: [Buffer, number, string, string | null][] = [
      [form(purpose('batch')), 400, 'missing_parameter', 'file'],
      [form(file('x')), 400, 'missing_parameter', 'purpose'],
      [form(purpose('batch'), { name: 'upload', value: 'x', filename: 'x' }), 400, 'missing_parameter', 'file'],
      [form(purpose('batch'), { name: 'file', value: 'x' }), 400, 'invalid_parameter', 'file'],
      [form(purpose('assistants'), file('x')), 400, 'unsupported_purpose', 'purpose'],
      [form(file('x'), purpose('fine-tune')), 400, 'unsupported_purpose', 'purpose'],
      [form(file('x'), file('y'), purpose('batch')), 400, 'invalid_parameter', null],
      [form(purpose('batch'), file('x')).subarray(0, -20), 400, 'invalid_parameter', null],
      [Buffer.from('no form'), 400, 'invalid_parameter', null],
      [Buffer.alloc(0), 400, 'missing_parameter', 'file'],
      [form(purpose('batch'), file(Buffer.alloc(1_000_001))), 413, 'file_too_large', 'file'],
      [form(file(Buffer.alloc(1_200_000)), purpose('batch')), 413, 'file_too_large', 'file'],
    ];
    for (const [payload, status, code, param] of cases) {
      const answer = await send(payload);
      expect([answer.statusCode, answer.json().error.code, answer.json().error.param]).toEqual([status, code, param]);
      expect(answer.json().error.message).not.toMatch(/\/tmp|blob/);
    }
    const json = await server.inject({
      method: 'POST',
      url: '/files',
      headers: { authorization: caller.authorization },
      payload: {},
    });
    expect([json.statusCode, json.json().error.code]).toEqual([400, 'invalid_parameter']);
    expect(await bed.blobFiles()).toEqual(before);
  });

  it('deletes a file after the time that the client asks for, or the shorter retention of its account', async () => {
    const expiry = (anchor: string, seconds: string): Part[] => [
      { name: 'expires_after[anchor]', value: anchor },
      { name: 'expires_after[seconds]', value: seconds },
    ];
    const lifetimeOf = async (who: Caller, ...parts: Part[]) => {
      const stored = (await send(form(...parts), who)).json();
      return { id: stored.id, seconds: (Date.parse(stored.expires_at) - Date.parse(stored.created_at)) / 1000 };
    };
    const who = await bed.caller();
    const upload = [purpose('batch'), file('brief')];
    const brief = await lifetimeOf(who, ...expiry('created_at', '3600'), ...upload);
    expect(brief.seconds).toBe(3_600);
    const long = await lifetimeOf(who, ...upload, ...expiry('created_at', '2592000'));
    expect(long.seconds).toBe(2_592_000);
    await bed.store.accounts.update(who.principal.account.id, { fileRetentionDays: 1 }, someEntry);
    expect((await lifetimeOf(who, ...upload, ...expiry('created_at', '2592000'))).seconds).toBe(86_400);
    bed.advance(3_599_000);
    await bed.retention.sweep();
    expect((await call('GET', `/files/${brief.id}`, {}, who)).statusCode).toBe(200);
    bed.advance(1_000);
    await bed.retention.sweep();
    expect((await call('GET', `/files/${brief.id}`, {}, who)).json().error.code).toBe('file_not_found');
    expect((await call('GET', `/files/${brief.id}/content`, {}, who)).statusCode).toBe(404);
    expect((await call('GET', `/files/${long.id}`, {}, who)).statusCode).toBe(200);

    const before = (await bed.blobFiles()).length;
    const refused: [Part[], string, string][] = [
      [expiry('created_at', '3599'), 'invalid_parameter', 'expires_after[seconds]'],
      [expiry('created_at', '2592001'), 'invalid_parameter', 'expires_after[seconds]'],
      [expiry('created_at', '3600.5'), 'invalid_parameter', 'expires_after[seconds]'],
      [expiry('created_at', ''), 'invalid_parameter', 'expires_after[seconds]'],
      [expiry('last_active_at', '3600'), 'invalid_parameter', 'expires_after[anchor]'],
      [expiry('created_at', '3600').slice(0, 1), 'missing_parameter', 'expires_after[seconds]'],
      [expiry('created_at', '3600').slice(1), 'missing_parameter', 'expires_after[anchor]'],
      [[{ name: 'expires_after', value: '3600' }], 'invalid_parameter', 'expires_after'],
    ];
    for (const [parts, code, param] of refused) {
      const answer = await send(form(...upload, ...parts), who);
      expect(answer.statusCode, param).toBe(400);
      expect(answer.json().error).toMatchObject({ code, param });
    }
    expect(await bed.blobFiles()).toHaveLength(before);

    const key = { 'idempotency-key': 'with-a-lifetime' };
    const first = await send(form(...upload, ...expiry('created_at', '7200')), who, key);
    expect((await send(form(...expiry('created_at', '7200'), ...upload), who, key)).json()).toEqual(first.json());
    const other = await send(form(...upload, ...expiry('created_at', '7201')), who, key);
    expect(other.json().error.code).toBe('idempotency_key_reused');
  });

  it('keeps nothing of an upload that breaks off', async () => {
    const before = await bed.blobFiles();
    await server.listen({ host: '127.0.0.1', port: 0 });
    const socket = connect((server.server.address() as AddressInfo).port, '127.0.0.1');
    await once(socket, 'connect');
    const body = form(purpose('batch'), file(randomBytes(500_000)));
    socket.write(
      `POST /files HTTP/1.1\r\nHost: x\r\nAuthorization: ${caller.authorization}\r\n` +
        `Content-Type: multipart/form-data; boundary=${BOUNDARY}\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body.subarray(0, 300_000));
    await expect.poll(() => bed.blobFiles()).toHaveLength(before.length + 1);
    socket.destroy();
    await expect.poll(() => bed.blobFiles()).toEqual(before);
  });

  it('sends ranges, and says when there is none', async () => {
    const { id } = (await send(form(purpose('batch'), file('0123456789')))).json();
    const url = `/files/${id}/content`;
    const range = async (value: string, more = {}) => call('GET', url, { range: value, ...more });
    const part = await range('bytes=2-4');
    expect([part.statusCode, part.payload, part.headers['content-range']]).toEqual([206, '234', 'bytes 2-4/10']);
    expect((await range('bytes=-3')).payload).toBe('789');
    expect((await range('bytes=8-')).headers['content-length']).toBe('2');
    const whole = await range('bytes=0-1', { 'if-range': '"other"' });
    expect([whole.statusCode, whole.payload]).toEqual([200, '0123456789']);
    const outside = await range('bytes=10-');
    expect([outside.statusCode, outside.headers['content-range']]).toEqual([416, 'bytes */10']);
    expect(outside.json().error).toMatchObject({ code: 'invalid_parameter', param: 'range' });
    const head = await call('HEAD', url);
    expect([head.statusCode, head.headers['content-length'], head.payload]).toEqual([200, '10', '']);
  });

  it('pages through files, also when they are deleted on the way', async () => {
    const other = await bed.caller();
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) {
      await send(form(purpose(name === 'b' ? 'transcription' : 'batch'), file(name, name)), other);
    }
    const list = async (query: string) => (await call('GET', `/files${query}`, {}, other)).json();
    const whole = await list('');
    expect(whole).toMatchObject({ object: 'list', has_more: false });
    expect(whole.data.map((each: { filename: string }) => each.filename)).toEqual(names.toReversed());
    expect([whole.first_id, whole.last_id]).toEqual([whole.data[0].id, whole.data[4].id]);
    expect((await list('?purpose=transcription')).data).toHaveLength(1);

    const seen: string[] = [];
    for (let query = '?order=asc&limit=2'; query !== ''; ) {
      const page = await list(query);
      seen.push(...page.data.map((each: { filename: string }) => each.filename));
      for (const { id } of page.data) await call('DELETE', `/files/${id}`, {}, other);
      query = page.has_more ? `?order=asc&limit=2&after=${page.last_id}` : '';
    }
    expect(seen).toEqual(names);
    expect(await list('')).toEqual({ object: 'list', data: [], first_id: null, last_id: null, has_more: false });

    for (const query of ['?limit=0', '?limit=10001', '?limit=x', '?order=up', '?after=../x']) {
      expect((await call('GET', `/files${query}`)).json().error.code, query).toBe('invalid_parameter');
    }
    expect((await call('GET', '/files?purpose=assistants')).json().error.code).toBe('unsupported_purpose');
  });

  it('deletes the record and the bytes', async () => {
    const before = await bed.blobFiles();
    const { id } = (await send(form(purpose('batch'), file('x')))).json();
    expect((await call('DELETE', `/files/${id}`)).json()).toEqual({ id, object: 'file', deleted: true });
    for (const url of [`/files/${id}`, `/files/${id}/content`]) {
      expect((await call('GET', url)).json().error.code).toBe('file_not_found');
    }
    expect((await call('DELETE', `/files/${id}`)).statusCode).toBe(404);
    expect(await bed.blobFiles()).toEqual(before);
  });

  it('shows nothing to other accounts, and nothing to keys without the scope', async () => {
    const { id } = (await send(form(purpose('batch'), file('x')))).json();
    const stranger = await bed.caller();
    for (const [method, url] of [
      ['GET', `/files/${id}`],
      ['GET', `/files/${id}/content`],
      ['DELETE', `/files/${id}`],
    ] as const) {
      const answer = await call(method, url, {}, stranger);
      expect([answer.statusCode, answer.json().error.code]).toEqual([404, 'file_not_found']);
    }
    const chatOnly = await bed.caller({ of: caller, scopes: ['chat'] });
    expect((await call('GET', '/files', {}, chatOnly)).json().error.code).toBe('insufficient_scope');
    expect((await send(form(purpose('batch'), file('x')), chatOnly)).statusCode).toBe(403);
  });

  it('serves many at once', async () => {
    const contents = Array.from({ length: 40 }, () => randomBytes(20_000));
    const found = await Promise.all(
      contents.map(async (bytes) => {
        const { id } = (await send(form(purpose('batch'), file(bytes)))).json();
        return (await call('GET', `/files/${id}/content`)).rawPayload.equals(bytes);
      }),
    );
    expect(found.every(Boolean)).toBe(true);
  });

  it('lets an account run 64 downloads at a time, and others go on', async () => {
    const other = await bed.caller();
    const idOf = async (who: Caller) => (await send(form(purpose('batch'), file('hello')), who)).json().id as string;
    const [own, theirs] = [await idOf(caller), await idOf(other)];
    const unread: PassThrough[] = [];
    const opened = vi.spyOn(bed.blobs, 'get').mockImplementation(async () => {
      const stream = new PassThrough();
      unread.push(stream);
      return stream;
    });
    const running = Array.from({ length: 64 }, () => call('GET', `/files/${own}/content`));
    await expect.poll(() => unread.length).toBe(64);
    const refused = await call('GET', `/files/${own}/content`);
    expect([refused.statusCode, refused.json().error.code]).toEqual([429, 'concurrency_exceeded']);
    running.push(call('GET', `/files/${theirs}/content`, {}, other));
    await expect.poll(() => unread.length).toBe(65);
    opened.mockRestore();
    for (const stream of unread) stream.end('hello');
    for (const answer of await Promise.all(running)) expect(answer.body).toBe('hello');
    expect((await call('GET', `/files/${own}/content`)).body).toBe('hello');
  });
});
