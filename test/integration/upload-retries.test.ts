import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../packages/core/src/errors/store-unavailable.ts';
import { type Caller, createFileBed, type FileBed } from '../fixtures/file-bed.ts';

describe('uploads with an idempotency key at the quota', () => {
  let bed: FileBed;
  let server: FastifyInstance;
  beforeAll(async () => {
    bed = await createFileBed({ quotaBytes: 100, quotaFiles: 3 });
    server = await bed.server();
  });
  afterAll(() => bed.close());
  const send = (who: Caller, key: string, text: string) => {
    const payload = new FormData();
    payload.set('file', new Blob([text]), 'in.jsonl');
    payload.set('purpose', 'batch');
    const headers = { authorization: who.authorization, 'idempotency-key': key };
    return server.inject({ method: 'POST', url: '/files', headers, payload });
  };

  it('answers the retry of an upload that filled the quota as it answered the first', async () => {
    const who = await bed.caller();
    const first = await send(who, 'full', 'x'.repeat(60));
    const blobs = await bed.blobFiles();
    const retry = await send(who, 'full', 'x'.repeat(60));
    expect([first.statusCode, retry.statusCode, retry.headers['idempotent-replayed']]).toEqual([200, 200, 'true']);
    expect(retry.json()).toEqual(first.json());
    expect((await send(who, 'full', 'y'.repeat(60))).json().error.code).toBe('idempotency_key_reused');
    expect(await bed.blobFiles()).toEqual(blobs);
  });

  it('finds the file of an upload whose answer was lost when it filled the quota', async () => {
    const who = await bed.caller();
    const create = bed.store.files.create;
    const lost = vi.spyOn(bed.store.files, 'create').mockImplementationOnce(async (...given) => {
      await create(...given);
      throw new StoreUnavailableError('the connection broke during the commit');
    });
    expect((await send(who, 'lost', 'x'.repeat(100))).statusCode).toBe(503);
    lost.mockRestore();
    const retry = await send(who, 'lost', 'x'.repeat(100));
    const [stored] = (await bed.files.list(who.principal.account.id, { limit: 2, order: 'asc' })).files;
    expect([retry.statusCode, retry.json().id]).toEqual([200, stored?.id]);
  });

  it('refuses a new upload beyond the quota, and takes it when there is room again', async () => {
    const who = await bed.caller();
    const { id } = (await send(who, 'old', 'x'.repeat(100))).json();
    const blobs = await bed.blobFiles();
    for (const text of ['y', 'y'.repeat(100)]) {
      const refused = await send(who, 'new', text);
      expect([refused.statusCode, refused.json().error.code]).toEqual([422, 'validation_failed']);
    }
    expect(await bed.blobFiles()).toEqual(blobs);
    await bed.files.remove(who.principal.account.id, id);
    expect((await send(who, 'new', 'y'.repeat(100))).statusCode).toBe(200);
  });
});
