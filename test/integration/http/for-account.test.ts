import { afterAll, expect, it } from 'vitest';
import { EMBEDDING, KEY, startHttpBed } from './bed.ts';

const bed = await startHttpBed();
afterAll(() => bed[Symbol.asyncDispose]());

const jsonOf = async <T>(answer: Response | Promise<Response>): Promise<T> => (await (await answer).json()) as T;
const get = <T>(path: string, key = KEY) => jsonOf<T>(bed.fetch(path, { key }));
interface Listed {
  data: { id: string; action: string; changes: { field: string; after: unknown }[] }[];
}

await bed.post('/v1/admin/accounts', { name: 'team' });
const { secret: member } = await jsonOf<{ secret: string }>(
  bed.post('/v1/admin/keys', { account: 'team', name: 'member' }),
);

const auditOf = async (account: string) => {
  const { data } = await get<Listed>(`/v1/admin/audit?account=${account}&action=account.used`);
  return data.map(({ changes }) => changes.find(({ field }) => field === 'operation')?.after).toReversed();
};
const billed = async (account: string) => {
  const { totals } = await get<{ totals: { requests: number } }>(`/v1/usage?start=2020-01-01&account=${account}`);
  return totals.requests;
};
const line = (id: string) =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/embeddings', body: { model: EMBEDDING, input: id } });

it('lets an operator store, run and read for an account that is named, with one line each in the audit log', async () => {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([`${line('a')}\n${line('b')}\n`]), 'lines.jsonl');
  const file = await jsonOf<{ id: string }>(
    bed.fetch('/v1/files?account=team', { method: 'POST', body: form, key: KEY }),
  );
  const idsOf = async (path: string, key?: string) => (await get<Listed>(path, key)).data.map(({ id }) => id);
  expect(await idsOf('/v1/files', member)).toEqual([file.id]);
  expect(await idsOf('/v1/files?account=team')).toEqual([file.id]);
  expect(await idsOf('/v1/files')).toEqual([]);
  expect(await auditOf('team')).toEqual(['files.create']);

  expect((await bed.fetch(`/v1/files/${file.id}/content`, { key: KEY })).status).toBe(404);
  expect((await bed.fetch(`/v1/files/${file.id}/content?account=team`, { key: KEY })).status).toBe(200);
  expect((await bed.post('/v1/embeddings?account=team', { model: EMBEDDING, input: 'x' })).status).toBe(200);
  expect(await auditOf('team')).toEqual(['files.create', 'files.content', 'embeddings.create']);
  expect(await billed('team')).toBe(1);
  expect(await billed('default')).toBe(0);

  const batch = await jsonOf<{ id: string }>(
    bed.post('/v1/batches?account=team', {
      input_file_id: file.id,
      endpoint: '/v1/embeddings',
      completion_window: '24h',
    }),
  );
  expect(await idsOf('/v1/batches', member)).toEqual([batch.id]);
  await expect
    .poll(() => get<{ status: string }>(`/v1/batches/${batch.id}?account=team`), { timeout: 30_000 })
    .toMatchObject({ status: 'completed' });
  expect(await billed('team')).toBe(3);
  expect(await billed('default')).toBe(0);
  expect(await auditOf('team')).toEqual(['files.create', 'files.content', 'embeddings.create', 'batches.create']);
  const own = await get<Listed>('/v1/admin/audit?account=default&action=account.used');
  expect(own.data).toEqual([]);
});

it('refuses it to everyone else, and for accounts that are gone or suspended', async () => {
  const statusOf = async (query: string, key = KEY) =>
    (await bed.post(`/v1/embeddings?${query}`, { model: EMBEDDING, input: 'x' }, key)).status;
  expect(await statusOf('account=default', member)).toBe(403);
  expect(await statusOf('account=nobody', member)).toBe(403);
  expect(await statusOf('account=team', member)).toBe(200);
  expect(await statusOf('account=nobody')).toBe(400);
  expect(await statusOf('account=team&account=default')).toBe(400);
  expect(await statusOf('account=default')).toBe(200);
  await bed.post('/v1/admin/accounts', { name: 'quiet' });
  await bed.post('/v1/admin/accounts/quiet/suspend', {});
  expect(await statusOf('account=quiet')).toBe(400);
  expect((await bed.fetch('/v1/files?account=quiet', { key: KEY })).status).toBe(200);
  expect(await auditOf('quiet')).toEqual([]);
  const { data } = await get<Listed>('/v1/admin/accounts?search=quiet');
  const id = data[0]?.id;
  expect((await bed.fetch('/v1/admin/accounts/quiet', { method: 'DELETE' })).status).toBe(200);
  const refused = await bed.post(`/v1/embeddings?account=${id}`, { model: EMBEDDING, input: 'x' });
  expect(await refused.json()).toMatchObject({ error: { message: expect.stringContaining('was deleted') } });
});

it('is refused by routes that would answer for the own account', async () => {
  const refusalOf = async (method: string, path: string) => {
    const answer = await bed.fetch(`/v1/${path}?account=team`, { method, key: KEY });
    const { error } = await jsonOf<{ error: object }>(answer);
    return { status: answer.status, ...error };
  };
  const expected = { status: 400, param: 'account' };
  for (const [method, path, hint] of [
    ['GET', 'keys', 'GET /v1/admin/keys'],
    ['POST', 'keys', 'POST /v1/admin/keys'],
    ['POST', 'keys/key_1/revoke', 'POST /v1/admin/keys/:id/revoke'],
    ['GET', 'audit', 'GET /v1/admin/audit'],
  ] as const) {
    expect(await refusalOf(method, path)).toMatchObject({ ...expected, message: expect.stringContaining(hint) });
  }
  for (const path of ['keys/me', 'sessions/current', 'admin/engines', 'admin/system']) {
    expect(await refusalOf('GET', path)).toMatchObject(expected);
  }
  const start = new Date(Date.now() - 60_000).toISOString();
  for (const path of ['usage', 'performance', 'requests', 'files', 'batches', 'models', 'admin/keys', 'admin/audit']) {
    expect((await bed.fetch(`/v1/${path}?account=team&start=${start}`, { key: KEY })).status).toBe(200);
  }
});
