import { randomBytes } from 'node:crypto';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { afterAll, describe, expect, it } from 'vitest';
import { ok, openIdempotencyBed, replayed, request, run } from './testing/idempotency-bed.ts';

const bed = await openIdempotencyBed(['acct_1', 'acct_3', 'acct_4', 'acct_5']);
afterAll(() => bed.close());

/** Which answers are kept, where and for how long. */
describe('idempotent answers', () => {
  it('keeps large bodies in the blob store and removes them after a day', async () => {
    const service = bed.newProcess();
    const of = request();
    const body = randomBytes(200_000);
    await (await run(service, of)).complete({ ...ok(''), body });
    expect((await replayed(bed.newProcess(), of)).body.equals(body)).toBe(true);
    const stored = async () => {
      let count = 0;
      for await (const _ of bed.blobs.list('idempotency/')) count += 1;
      return count;
    };
    expect(await stored()).toBe(1);
    bed.clock.time += DAY_MS;
    while (await service.sweep());
    expect(await stored()).toBe(0);
    await (await run(service, of)).abandon(499);
  });

  it('repeats a run under its billing id when the answer was too large to keep', async () => {
    const service = bed.newProcess({ maxBodyBytes: 10 });
    const of = request();
    const first = await run(service, of);
    await first.complete(ok('longer than ten bytes'));
    const second = await run(service, of);
    expect(second.billingId).toBe(first.billingId);
    await second.complete({ ...ok(''), body: null });
    const third = await run(bed.newProcess(), of);
    expect(third.billingId).toBe(first.billingId);
    await third.complete(ok('short'));
    expect((await replayed(service, of)).body.toString()).toBe('short');
  });

  it('does not keep answers over the quota of bytes, and runs their retries as new requests', async () => {
    const service = bed.newProcess({ quota: { items: 0, bytes: 200_000 } });
    const blobFiles = async () => {
      const found = [];
      for await (const { key } of bed.blobs.list('idempotency/')) found.push(key);
      return found.length;
    };
    const before = await blobFiles();
    const of = request({ accountId: 'acct_3' });
    await (await run(service, of)).complete({ ...ok(''), body: randomBytes(150_000) });
    expect(await blobFiles()).toBe(before + 1);
    for (const bytes of [100_000, 50_001]) {
      const large = request({ accountId: 'acct_3' });
      const first = await run(service, large);
      const waiting = replayed(service, large);
      await first.complete({ ...ok(''), body: randomBytes(bytes) });
      expect((await waiting).body).toHaveLength(bytes);
      expect(await blobFiles()).toBe(before + 1);
      const second = await run(service, large);
      expect(second.billingId).not.toBe(first.billingId);
      await second.abandon(499);
    }
    expect((await replayed(service, of)).body).toHaveLength(150_000);
  });

  it('stores nothing of an account with zero retention, and honours the key while the request runs', async () => {
    const service = bed.newProcess();
    const of = request({ keepAnswer: false, accountId: 'acct_5' });
    const first = await run(service, of);
    expect(await bed.store.idempotency.stored('acct_5')).toEqual({ items: 1, bytes: 0 });
    const waiting = replayed(service, of);
    await expect(bed.newProcess().begin({ ...of, bodyHash: 'other' })).rejects.toMatchObject({ status: 422 });
    await first.complete({ ...ok(''), body: randomBytes(100_000) });
    expect((await waiting).body).toHaveLength(100_000);
    expect(await bed.store.idempotency.stored('acct_5')).toEqual({ items: 0, bytes: 0 });
    const second = await run(service, of);
    expect(second.billingId).not.toBe(first.billingId);
    await second.complete({ ...ok(''), body: null });
    expect(await bed.store.idempotency.stored('acct_5')).toEqual({ items: 0, bytes: 0 });
  });

  it('keeps no answer while the disk is low on space, and bills the retry once', async () => {
    const status = { freeBytes: 1, reserveBytes: 2, isLow: true };
    const service = bed.newProcess({ space: { status: async () => status } });
    const of = request();
    const first = await run(service, of);
    const waiting = replayed(service, of);
    await first.complete(ok('small'));
    expect((await waiting).body.toString()).toBe('small');
    status.isLow = false;
    const second = await run(service, of);
    expect(second.billingId).toBe(first.billingId);
    await second.complete(ok('again'));
    expect((await replayed(service, of)).body.toString()).toBe('again');
  });

  it('refuses new keys over the quota until others expire, answers with errors included', async () => {
    const service = bed.newProcess({ quota: { items: 2, bytes: 0 } });
    const known = request({ accountId: 'acct_4' });
    await (await run(service, known)).complete({ ...ok('{}'), status: 404 });
    await (await run(service, request({ accountId: 'acct_4' }))).complete({ ...ok('{}'), status: 422 });
    const refused = { code: 'capacity_exceeded', status: 429, message: expect.stringContaining('quota of 2') };
    await expect(service.begin(request({ accountId: 'acct_4' }))).rejects.toMatchObject(refused);
    expect((await replayed(service, known)).status).toBe(404);
    bed.clock.time += DAY_MS;
    while (await service.sweep());
    await (await run(service, request({ accountId: 'acct_4' }))).abandon(499);
  });

  it('does not replace the large answer of a process that took over', async () => {
    const of = request();
    const slow = await run(bed.newProcess(), of);
    const heir = await run(bed.newProcess(), of);
    const large = (fill: number) => ({ ...ok(''), body: Buffer.alloc(100_000, fill) });
    await heir.complete(large(1));
    await expect(slow.complete(large(2))).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect((await replayed(bed.newProcess(), of)).body).toEqual(large(1).body);
  });
});
