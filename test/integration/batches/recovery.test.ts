import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { Batch } from '../../../packages/core/src/domain/batch.ts';
import { removeBatchLeftovers } from '../../../packages/server/src/services/batches/batch-end.ts';
import { someEntry } from '../../fixtures/audit-entries.ts';
import { createFileBed, type FileBed } from '../../fixtures/file-bed.ts';
import { createExecutor, request, requests, useBatchBed } from './bed.ts';

describe('batches that are interrupted', () => {
  const shared = useBatchBed();
  const { upload, start, current, reached, done, lines, customIds } = shared;

  it('continues after a restart without running a recorded line again', async () => {
    const first = start();
    first.hold();
    const batch = await first.order([...requests(300), ...requests(20, 'held')]);
    await expect.poll(() => done(batch)).toBe(300);
    await first.runner.stop(0);
    expect(await current(batch)).toMatchObject({ status: 'in_progress', outputFileId: null });

    const second = start();
    const { counts, outputFileId } = await reached(batch, 'completed');
    expect(counts).toEqual({ total: 320, completed: 320, failed: 0 });
    const found = await customIds(outputFileId);
    expect(found).toHaveLength(320);
    expect(new Set(found).size).toBe(320);
    expect(second.calls.map(({ input }) => input.split(' ')[0])).toEqual(Array.from({ length: 20 }, () => 'held'));
    // A line that began before the restart has the same name in the books.
    const billed = new Set(first.calls.map(({ call }) => call.billingId));
    expect(second.calls.filter(({ call }) => billed.has(call.billingId)).length).toBeGreaterThan(0);
  });

  it('starts over when the restart comes during validation', async () => {
    const { id: inputFileId } = await upload([request('a', 'x'), 'bad line', request('b', 'y')]);
    const idle = shared.bed.runner(createExecutor().executor);
    const batch = await shared.bed.batches(idle).create(shared.caller.principal, {
      inputFileId,
      endpoint: '/v1/embeddings',
      completionWindow: '24h',
      metadata: null,
    });
    const claim = { now: 0, leaseUntil: 1, limit: 1, perAccount: 1, holding: [] };
    await shared.bed.store.batches.claim({ ...claim, ownerId: 'ended' });
    const owned = { id: batch.id, ownerId: 'ended' };
    await shared.bed.store.batches.record(owned, [
      { line: 2, failed: true, blobKey: 'batches/x', offset: 0, bytes: 1 },
    ]);
    start();
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 2, failed: 1 });
  });

  it('waits for running lines when reading its input fails, and runs none of them twice', async () => {
    let opened = 0;
    const open: FileBed['files']['open'] = async (file, range) => {
      const stream = await shared.bed.files.open(file, range);
      opened += 1;
      if (opened !== 2) return stream;
      const part = (await text(stream)).split('\n').slice(0, 4);
      const broken = async function* () {
        yield Buffer.from(`${part.join('\n')}\n`);
        throw new Error('the disk is gone');
      };
      return Readable.from(broken());
    };
    const { order, calls, hold, release, atWork } = start({ open });
    hold();
    const batch = await order(requests(12, 'held'));
    await expect.poll(atWork).toBe(4);
    // Later than it would be taken up again.
    shared.bed.advance(10_000);
    await reached(await order(requests(3)), 'completed');
    expect(calls.filter(({ input }) => input.startsWith('held'))).toHaveLength(4);
    release();
    await expect.poll(() => done(batch)).toBe(4);
    shared.bed.advance(10_000);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 12, completed: 12, failed: 0 });
    expect(calls.filter(({ input }) => input.startsWith('held'))).toHaveLength(12);
  });

  it('ends although its input can no longer be read', async () => {
    const other = await createFileBed();
    const owner = await other.caller();
    let readable = true;
    const open: FileBed['files']['open'] = async (file, range) => {
      if (readable) return other.files.open(file, range);
      throw new Error('the disk is gone');
    };
    const fake = createExecutor();
    const runner = other.runner(fake.executor, { open });
    const batches = other.batches(runner);
    const order = async () => {
      const { id } = await other.files.upload(owner.principal.account.id, {
        filename: 'in.jsonl',
        content: (async function* () {
          yield Buffer.from(requests(20, 'held').join('\n'));
        })(),
        purpose: () => 'batch',
      });
      const command = { inputFileId: id, endpoint: '/v1/embeddings', completionWindow: '1h', metadata: null } as const;
      return batches.create(owner.principal, command);
    };
    const statusOf = async ({ id }: Batch) => (await other.store.batches.get(id))?.status;
    fake.hold();
    runner.start();
    const begun = await order();
    await expect.poll(fake.atWork).toBe(8);
    readable = false;
    const unread = await order();
    other.advance(3_600_000);
    fake.release();
    await expect.poll(() => statusOf(unread)).toBe('expired');
    await expect.poll(() => statusOf(begun)).toBe('expired');
    const { counts, outputFileId } = (await other.store.batches.get(begun.id)) as Batch;
    expect(counts).toEqual({ total: 20, completed: fake.calls.length, failed: 0 });
    expect(outputFileId).not.toBeNull();
    await other.close();
  });

  it('keeps finished lines when its input is gone', async () => {
    const first = start();
    first.hold();
    const batch = await first.order([...requests(5), ...requests(3, 'held')]);
    await expect.poll(() => done(batch)).toBe(5);
    await first.runner.stop(0);
    const input = await shared.bed.files.get(shared.caller.principal.account.id, batch.inputFileId);
    await shared.bed.blobs.delete(input.blobKey);
    start();
    const ended = await reached(batch, 'failed');
    expect(ended.problems.map(({ code }) => code)).toEqual(['input_file_gone']);
    expect(await customIds(ended.outputFileId)).toHaveLength(5);
  });

  it('ends a batch whose input another process found gone, also when that process was interrupted', async () => {
    const first = start();
    first.hold();
    const batch = await first.order([...requests(5), ...requests(3, 'held')]);
    await expect.poll(() => done(batch)).toBe(5);
    await first.runner.stop(0);
    const other = { id: batch.id, ownerId: 'other' };
    const { batches } = shared.bed.store;
    expect(await batches.claimWhole(other, { now: Date.now(), until: Date.now() + 60_000 })).toBe(true);
    await batches.release(other);
    start();
    const ended = await reached(batch, 'failed');
    expect(ended.problems.map(({ code }) => code)).toEqual(['input_file_gone']);
    expect(await customIds(ended.outputFileId)).toHaveLength(5);
  });

  it('leaves no results of batches that have ended, and keeps those of others', async () => {
    const { order, hold, release, atWork } = start();
    const ended = await order(requests(3));
    await reached(ended, 'completed');
    hold();
    const active = await order([...requests(9), ...requests(3, 'held')]);
    await expect.poll(() => done(active)).toBe(9);
    await expect.poll(atWork).toBe(3);
    const { store, blobs } = shared.bed;
    const late = `batches/${ended.id}/late`;
    await blobs.put(late, Readable.from([Buffer.from('{}')]));
    const options = { batches: store.batches, blobs, signal: new AbortController().signal };
    expect(await removeBatchLeftovers({ ...options, before: 0 })).toBe(0);
    expect(await removeBatchLeftovers({ ...options, before: Number.MAX_SAFE_INTEGER })).toBe(1);
    expect(await blobs.stat(late)).toBeUndefined();
    release();
    expect(await customIds((await reached(active, 'completed')).outputFileId)).toHaveLength(12);
  });

  it('waits with new batches while the disk is low on space', async () => {
    const status = { freeBytes: 1, reserveBytes: 2, isLow: true };
    let asked = 0;
    const space = {
      status: async () => {
        asked += 1;
        return status;
      },
    };
    const { order, calls, runner } = start({ space });
    const batch = await order(requests(3));
    await expect.poll(() => asked).toBeGreaterThan(1);
    expect((await current(batch)).status).toBe('validating');
    expect(calls).toEqual([]);
    status.isLow = false;
    runner.wake();
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 3, failed: 0 });
  });

  it('fails the rest when the key is revoked', async () => {
    const { order, hold, release, atWork } = start();
    const owner = await shared.bed.caller();
    hold();
    const batch = await order([...requests(8, 'held'), ...requests(10, 'late')], owner);
    await expect.poll(atWork).toBe(8);
    await shared.bed.store.keys.update(owner.principal.key.id, { revokedAt: Date.now() }, someEntry);
    shared.bed.advance(2_000);
    release();
    const ended = await reached(batch, 'completed');
    expect(ended.counts).toEqual({ total: 18, completed: 8, failed: 10 });
    const failed = await lines(ended.errorFileId, owner);
    expect(failed[0]?.response).toMatchObject({ status_code: 403, body: { error: { code: 'key_revoked' } } });
  });

  it.each(['embeddings', 'batches'] as const)('fails the rest when the key loses the scope %s', async (lost) => {
    const { order, hold, release, atWork } = start();
    const owner = await shared.bed.caller();
    hold();
    const batch = await order([...requests(8, 'held'), ...requests(10, 'late')], owner);
    await expect.poll(atWork).toBe(8);
    const { id, scopes } = owner.principal.key;
    await shared.bed.store.keys.update(id, { scopes: scopes.filter((scope) => scope !== lost) }, someEntry);
    shared.bed.advance(2_000);
    release();
    const ended = await reached(batch, 'completed');
    expect(ended.counts).toEqual({ total: 18, completed: 8, failed: 10 });
    const failed = await lines(ended.errorFileId, owner);
    expect(failed[0]?.response).toMatchObject({
      status_code: 403,
      body: { error: { code: 'insufficient_scope', message: expect.stringContaining(`'${lost}'`) } },
    });
  });

  it('waits while the account is suspended, and goes on when it is resumed', async () => {
    const { order, hold, release, atWork } = start();
    const owner = await shared.bed.caller();
    const { id } = owner.principal.account;
    hold();
    const batch = await order([...requests(8, 'held'), ...requests(10, 'late')], owner);
    await expect.poll(atWork).toBe(8);
    await shared.bed.store.accounts.update(id, { suspendedAt: shared.bed.now() }, someEntry);
    shared.bed.advance(2_000);
    release();
    await expect
      .poll(async () => (await shared.bed.store.batches.get(batch.id))?.counts)
      .toMatchObject({ completed: 8 });
    await shared.bed.store.accounts.update(id, { suspendedAt: null }, someEntry);
    shared.bed.advance(2_000);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 18, completed: 18, failed: 0 });
  });

  it('retries after a full queue and after a server error', async () => {
    const { order, calls } = start();
    const batch = await order([request('a', 'busy'), request('b', 'broken'), request('c', 'fine')]);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 3, failed: 0 });
    expect(calls.filter(({ input }) => input === 'busy')).toHaveLength(2);
    expect(calls.filter(({ input }) => input === 'broken')).toHaveLength(2);
  });

  it('waits while the store or all upstreams are away, instead of failing its lines', async () => {
    const { order, calls } = start();
    const batch = await order([request('a', 'outage'), request('b', 'engine away'), request('c', 'fine')]);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 3, completed: 3, failed: 0 });
    expect(calls.filter(({ input }) => input === 'outage')).toHaveLength(6);
    expect(calls.filter(({ input }) => input === 'engine away')).toHaveLength(5);
  });

  it('is created once for a run of an idempotency key, however often that is repeated', async () => {
    const { id: inputFileId } = await upload([request('a', 'x')]);
    const service = shared.bed.batches(shared.bed.runner(createExecutor().executor));
    const create = (billingId: string) =>
      service.create(shared.caller.principal, {
        inputFileId,
        endpoint: '/v1/embeddings',
        completionWindow: '24h',
        metadata: null,
        run: { billingId, startedAt: 1_790_000_000_000 },
      });
    const first = await create('idem_1');
    expect(await create('idem_1')).toEqual(first);
    expect((await create('idem_2')).id).not.toBe(first.id);
  });

  it('reads its input to the end when the client deletes it meanwhile', async () => {
    const { order, hold, release, atWork } = start();
    hold();
    const batch = await order(requests(30, 'held'));
    await expect.poll(atWork).toBe(8);
    const input = await shared.bed.files.get(shared.caller.principal.account.id, batch.inputFileId);
    await shared.bed.files.remove(shared.caller.principal.account.id, input.id);
    expect(await shared.bed.blobs.stat(input.blobKey)).toBeDefined();
    release();
    expect((await reached(batch, 'completed')).counts.completed).toBe(30);
    await expect.poll(() => shared.bed.blobs.stat(input.blobKey)).toBeUndefined();
  });
});
