import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DAY_MS } from '../../packages/core/src/domain/time/durations.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { type Caller, createFileBed, type FileBed } from '../fixtures/file-bed.ts';

describe('quota, retention and clean-up after a crash', () => {
  let bed: FileBed;
  let caller: Caller;
  beforeAll(async () => {
    bed = await createFileBed({ quotaBytes: 100, quotaFiles: 3 });
    caller = await bed.caller();
  });
  afterAll(() => bed.close());

  const put = (text: string, { principal } = caller) =>
    bed.files.upload(principal.account.id, {
      filename: 'x',
      content: (async function* () {
        yield Buffer.from(text);
      })(),
      purpose: () => 'batch',
    });

  it('refuses what would pass the quota of an account, with the numbers', async () => {
    await put('x'.repeat(60));
    await expect(put('x'.repeat(41))).rejects.toMatchObject({
      code: 'validation_failed',
      message: expect.stringContaining(
        'stores 1 files with 60 bytes; with this one it would pass its quota of 3 files and 100 bytes',
      ),
    });
    await put('x'.repeat(40));
    await put('');
    await expect(put('')).rejects.toMatchObject({ code: 'validation_failed' });
    expect(await bed.blobFiles()).toHaveLength(3);
    await put('other accounts have a quota of their own', await bed.caller());
  });

  it('stops uploads while they arrive when they pass the quota together', async () => {
    const owner = await bed.caller();
    let sent = 0;
    const endless = async function* () {
      for (let chunk = 0; chunk < 1_000; chunk += 1) {
        sent += 10;
        yield Buffer.alloc(10);
      }
    };
    const upload = () =>
      bed.files.upload(owner.principal.account.id, { filename: 'x', content: endless(), purpose: () => 'batch' });
    const before = await bed.blobFiles();
    const results = await Promise.allSettled([upload(), upload(), upload()]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(sent).toBeLessThan(200);
    expect(await bed.blobFiles()).toEqual(before);
    await put('x'.repeat(100), owner);
    await bed.files.remove(
      owner.principal.account.id,
      (await bed.files.list(owner.principal.account.id, { limit: 1, order: 'asc' })).files[0]?.id ?? '',
    );
  });

  it('answers clients that are still sending, on one connection', async () => {
    const server = await bed.server();
    const address = await server.listen({ port: 0 });
    for (const megabytes of [2, 10, 2, 10]) {
      const body = new FormData();
      body.append('purpose', 'batch');
      body.append('file', new Blob([new Uint8Array(megabytes * 1_000_000)]), 'x');
      const headers = { authorization: caller.authorization };
      const answer = await fetch(`${address}/files`, { method: 'POST', body, headers });
      expect([answer.status, await answer.json()]).toMatchObject([422, { error: { code: 'validation_failed' } }]);
    }
  });

  it('removes files past their time, but not those that a job reads', async () => {
    const owner = await bed.caller();
    const [kept, gone] = [await put('kept', owner), await put('gone', owner)];
    const leaseUntil = bed.now() + 60 * DAY_MS;
    await bed.store.files.attach(kept.id, { id: 'job', ownerId: 'other', leaseUntil });
    bed.advance(30 * DAY_MS - 60_000);
    await bed.retention.sweep();
    expect(await bed.files.get(owner.principal.account.id, gone.id)).toEqual(gone);
    bed.advance(60_000);
    expect(await bed.retention.sweep()).toEqual({ expired: 5, removed: 5 });
    await expect(bed.files.get(owner.principal.account.id, gone.id)).rejects.toMatchObject({ code: 'file_not_found' });
    expect(await bed.files.get(owner.principal.account.id, kept.id)).toEqual(kept);
    await bed.files.detach('job');
    expect(await bed.retention.sweep()).toEqual({ expired: 1, removed: 1 });
    expect(await bed.blobFiles()).toEqual([]);
  });

  it('deletes files after the retention of their account', async () => {
    const owner = await bed.caller();
    const { id } = owner.principal.account;
    const before = await put('before', owner);
    await bed.store.accounts.update(id, { fileRetentionDays: 2 }, someEntry);
    const after = await put('after', owner);
    expect(before.expiresAt - before.createdAt).toBe(30 * DAY_MS);
    expect(after.expiresAt - after.createdAt).toBe(2 * DAY_MS);
    bed.advance(2 * DAY_MS);
    await bed.retention.sweep();
    expect((await bed.files.list(id, { limit: 10, order: 'asc' })).files).toEqual([before]);
    await bed.files.remove(id, before.id);
  });

  it('keeps the bytes of a deleted file until the job that reads it ends', async () => {
    const owner = await bed.caller();
    const file = await put('read me', owner);
    await bed.files.attach(file, 'job');
    await bed.files.remove(owner.principal.account.id, file.id);
    await expect(bed.files.get(owner.principal.account.id, file.id)).rejects.toThrow();
    expect(await bed.blobFiles()).toHaveLength(1);
    await bed.files.detach('job');
    expect(await bed.blobFiles()).toEqual([]);
  });

  it('removes bytes without a record, and only those', async () => {
    const owner = await bed.caller();
    const file = await put('mine', owner);
    await bed.files.store(owner.principal.account.id, {
      filename: 'lost',
      content: (async function* () {
        yield Buffer.from('the crash came here');
      })(),
      purpose: () => 'batch',
    });
    expect(await bed.retention.removeOrphans()).toBe(1);
    expect(await bed.retention.removeOrphans()).toBe(0);
    expect((await bed.files.open(file)).readable).toBe(true);
  });
});

it('refuses more than 64 uploads of an account at a time', async () => {
  const bed = await createFileBed();
  const [many, other] = [await bed.caller(), await bed.caller()];
  const { promise, resolve } = Promise.withResolvers<void>();
  const upload = ({ principal }: Caller) =>
    bed.files.upload(principal.account.id, {
      filename: 'x',
      content: (async function* () {
        yield Buffer.from('half');
        await promise;
      })(),
      purpose: () => 'batch',
    });
  const running = Array.from({ length: 64 }, () => upload(many));
  await expect(upload(many)).rejects.toMatchObject({ code: 'concurrency_exceeded' });
  const another = upload(other);
  resolve();
  await Promise.all([...running, another]);
  await upload(many);
  await bed.close();
});
