import { describe, expect, it } from 'vitest';
import type { Batch } from '../../../packages/core/src/domain/batch.ts';
import { FREE_LANE } from '../../fixtures/file-bed.ts';
import { createExecutor, request, requests, useBatchBed } from './bed.ts';

/** Nothing in these tests takes this long. */
const LONG_MS = 1_000_000_000;

/** Tells when a runner has looked for cancelled and expired batches. */
function watchLooks() {
  let looks = 0;
  const space = {
    status: async () => {
      looks += 1;
      return { freeBytes: 2, reserveBytes: 1, isLow: false };
    },
  };
  /** Resolves after a look that began after this call. */
  async function nextLook(): Promise<void> {
    // One may be under way.
    const enough = looks + 2;
    await expect.poll(() => looks).toBeGreaterThanOrEqual(enough);
  }
  return { space, nextLook };
}

describe('batches of several accounts and processes', () => {
  const shared = useBatchBed();
  const { upload, start, current, reached, done, customIds } = shared;

  it('stops work on a slice that another process has taken over', async () => {
    const { runner, order, hold, release, atWork, calls } = start();
    hold();
    const batch = await order([...requests(10), ...requests(5, 'held')]);
    await expect.poll(() => done(batch)).toBe(10);
    await expect.poll(atWork).toBe(5);
    const { batchSlices } = shared.bed.store;
    await batchSlices.releaseOthers('other');
    const other = { id: batch.id, ownerId: 'other' };
    const now = shared.bed.now();
    expect(await batchSlices.claim(other, { now, until: now + 60_000, holding: [] })).toMatchObject({
      firstLine: 9,
      lastLine: 15,
    });
    await runner.renewLeases(shared.bed.now() + 15_000);
    await expect.poll(atWork).toBe(0);
    release();
    expect(await current(batch)).toMatchObject({ status: 'in_progress', counts: { completed: 10 } });
    expect(calls).toHaveLength(15);
    // The other process gives it back.
    await batchSlices.release(other);
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 15, completed: 15, failed: 0 });
  });

  it('shares batches among processes, so that every line runs once', async () => {
    const [one, two] = [start(), start()];
    for (const each of [one, two]) each.hold();
    const others = await Promise.all([shared.bed.caller(), shared.bed.caller(), shared.bed.caller()]);
    const batches = await Promise.all(
      Array.from({ length: 12 }, (_, index) => one.order(requests(20, `held ${index}`), others[index % 3])),
    );
    // Neither can take all of them.
    await expect.poll(() => one.atWork() > 0 && two.atWork() > 0).toBe(true);
    for (const each of [one, two]) each.release();
    for (const batch of batches) {
      expect((await reached(batch, 'completed')).counts).toEqual({ total: 20, completed: 20, failed: 0 });
    }
    const inputs = [...one.calls, ...two.calls].map(({ input }) => input);
    expect(inputs).toHaveLength(240);
    expect(new Set(inputs).size).toBe(240);
  });

  it('works on one batch in several processes, so that every line runs once', async () => {
    const [one, two, three] = [start({ leaseMs: LONG_MS }), start({ leaseMs: LONG_MS }), start({ leaseMs: LONG_MS })];
    for (const each of [one, two, three]) each.hold();
    const batch = await one.order(requests(300, 'held'));
    await expect.poll(() => [one, two, three].every((each) => each.atWork() === 8)).toBe(true);
    for (const each of [one, two, three]) each.release();
    const { counts, outputFileId } = await reached(batch, 'completed');
    expect(counts).toEqual({ total: 300, completed: 300, failed: 0 });
    expect(await customIds(outputFileId)).toEqual(Array.from({ length: 300 }, (_, index) => `held-${index}`));
    const inputs = [one, two, three].flatMap(({ calls }) => calls.map(({ input }) => input));
    expect(inputs).toHaveLength(300);
    expect(new Set(inputs).size).toBe(300);
  });

  it('ends a cancelled batch when all processes have finished their lines', async () => {
    const [first, second] = [watchLooks(), watchLooks()];
    const one = start({ leaseMs: LONG_MS, space: first.space });
    const two = start({ leaseMs: LONG_MS, space: second.space });
    for (const each of [one, two]) each.hold();
    const batch = await one.order(requests(100, 'held'));
    await expect.poll(() => one.atWork() === 8 && two.atWork() === 8).toBe(true);
    await shared.bed.store.batches.cancel(batch.id, shared.bed.now());
    await Promise.all([first.nextLook(), second.nextLook()]);
    one.release();
    await expect.poll(() => done(batch)).toBe(8);
    expect((await current(batch)).status).toBe('cancelling');
    two.release();
    const { counts, outputFileId } = await reached(batch, 'cancelled');
    expect(counts).toEqual({ total: 100, completed: 16, failed: 0 });
    expect(await customIds(outputFileId)).toHaveLength(16);
  });

  it('expires a batch in all processes, with every line once', async () => {
    const [first, second] = [watchLooks(), watchLooks()];
    const one = start({ leaseMs: LONG_MS, space: first.space });
    const two = start({ leaseMs: LONG_MS, space: second.space });
    for (const each of [one, two]) each.hold();
    const batch = await one.order(requests(200, 'held'));
    await expect.poll(() => one.atWork() === 8 && two.atWork() === 8).toBe(true);
    shared.bed.advance(86_400_000);
    await Promise.all([first.nextLook(), second.nextLook()]);
    one.release();
    await expect.poll(async () => (await current(batch)).counts.failed).toBeGreaterThan(0);
    expect((await current(batch)).status).toBe('in_progress');
    two.release();
    const { counts, outputFileId, errorFileId } = await reached(batch, 'expired');
    expect(counts).toEqual({ total: 200, completed: 16, failed: 184 });
    const ids = [...(await customIds(outputFileId)), ...(await customIds(errorFileId))];
    expect(new Set(ids).size).toBe(200);
  });

  it('takes over the slices of a process whose lease has ended', async () => {
    const first = start();
    first.hold();
    const batch = await first.order(requests(40, 'held'));
    await expect.poll(first.atWork).toBe(8);
    // It renews nothing any more, like a process that is stuck.
    shared.bed.advance(15_000);
    const second = start();
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 40, completed: 40, failed: 0 });
    expect(new Set(second.calls.map(({ input }) => input)).size).toBe(40);
    // What the first one still has is late: the batch has ended.
    first.release();
    await shared.bed.stopRunners();
    expect((await current(batch)).counts).toEqual({ total: 40, completed: 40, failed: 0 });
  });

  it('sees within a second that another process has cancelled a batch', async () => {
    const { order, hold, release, atWork } = start();
    hold();
    const batch = await order(requests(30, 'held'));
    await expect.poll(atWork).toBe(8);
    await shared.bed.store.batches.cancel(batch.id, shared.bed.now());
    release();
    await reached(batch, 'cancelled');
  });

  it('does not make one account wait behind the long batch of another', async () => {
    const { order, atWork } = start({ concurrency: 4 });
    const long = await order(requests(3_000, 'slow'));
    await expect.poll(atWork).toBe(4);
    const other = await shared.bed.caller();
    const short = await order(requests(60, 'slow'), other);
    const begun = await done(long);
    await reached(short, 'completed');
    // Half of the slots were the other's: 60 lines of its own, and hardly more of the first one.
    expect((await done(long)) - begun).toBeLessThan(300);
    expect((await current(long)).status).toBe('in_progress');
    await shared.bed.store.batches.cancel(long.id, shared.bed.now());
    await reached(long, 'cancelled');
  });

  it('does not make the lines of one model wait behind slow ones of another', async () => {
    const lane = (body: unknown) => ({ ...FREE_LANE, name: (body as { model: string }).model });
    const { order, hold, release, calls, atWork } = start({ concurrency: 4, lane });
    hold();
    const input = Array.from({ length: 200 }, (_, index) =>
      index % 2 === 0 ? request(`${index}`, `held ${index}`, 'slow') : request(`${index}`, `text ${index}`, 'fast'),
    );
    const batch = await order(input);
    await expect.poll(() => done(batch)).toBe(100);
    expect(atWork()).toBe(4);
    release();
    const { counts, outputFileId } = await reached(batch, 'completed');
    expect(counts).toEqual({ total: 200, completed: 200, failed: 0 });
    expect(await customIds(outputFileId)).toEqual(input.map((_, index) => `${index}`));
    expect(calls).toHaveLength(200);
  });

  it('gives back the lines that wait for a slow model when it stops', async () => {
    const first = start({ concurrency: 2 });
    first.hold();
    const input = Array.from({ length: 60 }, (_, index) =>
      request(`${index}`, `held ${index}`, index % 3 === 0 ? 'one' : 'other'),
    );
    const batch = await first.order(input);
    await expect.poll(first.atWork).toBe(2);
    await shared.bed.stopRunners();
    expect(first.calls).toHaveLength(2);
    const second = start({ concurrency: 2 });
    expect((await reached(batch, 'completed')).counts).toEqual({ total: 60, completed: 60, failed: 0 });
    expect(second.calls).toHaveLength(60);
  });

  it('does not let an account with a thousand waiting batches delay another', async () => {
    const [flooding, other] = [await shared.bed.caller(), await shared.bed.caller()];
    const { id: inputFileId } = await upload(requests(1, 'held'), flooding);
    const idle = shared.bed.runner(createExecutor().executor);
    const command = { inputFileId, endpoint: '/v1/embeddings', completionWindow: '24h', metadata: null } as const;
    const first = await shared.bed.batches(idle).create(flooding.principal, command);
    for (let index = 0; index < 1_005; index += 1) {
      await shared.bed.store.batches.create({ ...first, id: `${first.id}_${index.toString().padStart(4, '0')}` }, 0);
    }
    const { order, hold } = start();
    hold();
    const batch = await order(requests(3), other);
    expect((await reached(batch, 'completed')).counts.completed).toBe(3);
    expect((await current(first)).status).not.toBe('completed');
    await shared.bed.stopRunners();
    for (const { id } of await shared.bed.store.batches.list({
      accountId: flooding.principal.account.id,
      limit: 2_000,
    })) {
      await shared.bed.store.batches.cancel(id, shared.bed.now());
    }
  });

  it('makes room for an account that has none at work when all others are slow', async () => {
    const { order, hold, release } = start();
    hold();
    const slow = await Promise.all([
      shared.bed.caller(),
      shared.bed.caller(),
      shared.bed.caller(),
      shared.bed.caller(),
    ]);
    const held = await Promise.all(
      slow.flatMap((owner) => [0, 1].map((index) => order(requests(2, `limited ${index}`), owner))),
    );
    for (const batch of held) await reached(batch, 'in_progress');
    const waiting = await order(requests(3), await shared.bed.caller());
    expect((await current(waiting)).status).toBe('validating');
    shared.bed.advance(30_000);
    await reached(waiting, 'completed');
    release();
    for (const batch of held) expect((await current(batch)).status).toBe('in_progress');
    await shared.bed.stopRunners();
    start();
    for (const batch of held) await reached(batch, 'completed');
  });

  it('refuses more batches of an account than may be active', async () => {
    const owner = await shared.bed.caller();
    const { order, hold, release } = start();
    hold();
    const batches = await Promise.all(Array.from({ length: 20 }, () => order(requests(1, 'held'), owner)));
    await expect(order(requests(1), owner)).rejects.toMatchObject({
      code: 'capacity_exceeded',
      status: 429,
      message: expect.stringContaining('20 batches that have not ended'),
    });
    release();
    await expect.poll(async () => (await current(batches[0] as Batch)).status).toBe('completed');
    await order(requests(1), owner);
  });

  it('runs one line at a time while there are interactive requests', async () => {
    let interactive = 5;
    const lane = () => ({ ...FREE_LANE, mustYield: () => interactive > 0 });
    const { order, calls, mostAtWork, forgetMost } = start({ concurrency: 16, lane });
    const batch = await order(requests(400, 'slow'));
    const mostOfTheNext = async (count: number) => {
      forgetMost();
      const from = calls.length;
      await expect.poll(() => calls.length, { interval: 5 }).toBeGreaterThan(from + count);
      return mostAtWork();
    };
    await expect.poll(() => mostOfTheNext(5)).toBe(1);
    interactive = 0;
    await reached(batch, 'completed');
    expect(mostAtWork()).toBeGreaterThan(8);
  });
});
