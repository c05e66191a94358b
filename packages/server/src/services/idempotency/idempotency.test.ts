import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Store } from '../../adapters/store.ts';
import { createIdempotency } from './idempotency.ts';
import { ok, openIdempotencyBed, replayed, request, run } from './testing/idempotency-bed.ts';

const bed = await openIdempotencyBed(['acct_1', 'acct_2']);
afterAll(() => bed.close());

describe('idempotency', () => {
  it('runs once, then replays status, headers and body, also in another process', async () => {
    const first = bed.newProcess();
    const of = request();
    await (await run(first, of)).complete({ ...ok('hello'), status: 201 });
    const expected = { status: 201, headers: { 'content-type': 'application/json' }, body: Buffer.from('hello') };
    expect(await replayed(first, of)).toEqual(expected);
    expect(await replayed(bed.newProcess(), of)).toEqual(expected);
  });

  it('lets thirty equal requests at once run once', async () => {
    const service = bed.newProcess();
    const of = request();
    let runs = 0;
    const answers = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const begun = await service.begin(of);
        if (begun.kind === 'replay') return Buffer.from(begun.answer.body as Uint8Array).toString();
        runs += 1;
        await begun.complete(ok('once'));
        return 'once';
      }),
    );
    expect(runs).toBe(1);
    expect(new Set(answers)).toEqual(new Set(['once']));
  });

  it('keeps accounts, endpoints and keys apart', async () => {
    const service = bed.newProcess();
    const of = request();
    await (await run(service, of)).complete(ok('x'));
    for (const other of [{ accountId: 'acct_2' }, { endpoint: 'POST /v1/rerank' }, { key: `${of.key}0` }]) {
      const begun = await service.begin({ ...of, ...other });
      expect(begun.kind, JSON.stringify(other)).toBe('run');
      if (begun.kind === 'run') await begun.abandon(499);
    }
    expect((await replayed(service, of)).body.toString()).toBe('x');
  });

  it('refuses another body, while the first runs and after', async () => {
    const service = bed.newProcess();
    const of = request();
    const first = await run(service, of);
    const other = { ...of, bodyHash: 'other' };
    const reused = { code: 'idempotency_key_reused', status: 422, param: 'idempotencyKey' };
    await expect(service.begin(other)).rejects.toMatchObject(reused);
    await expect(bed.newProcess().begin(other)).rejects.toMatchObject(reused);
    await first.complete(ok('x'));
    await expect(service.begin(other)).rejects.toMatchObject(reused);
  });

  it.each(['', ' ', 'a b', 'é', 'x'.repeat(256), 'a\n'])('refuses the key %j', async (key) => {
    await expect(bed.newProcess().begin(request({ key }))).rejects.toMatchObject({
      code: 'invalid_parameter',
      status: 400,
    });
  });

  it.each([200, 201, 400, 404, 413, 422])('keeps an answer with status %d', async (status) => {
    const service = bed.newProcess();
    const of = request();
    await (await run(service, of)).complete({ ...ok('kept'), status });
    expect((await replayed(service, of)).status).toBe(status);
  });

  it.each([500, 503, 504])('repeats a run that failed with status %d under its billing id', async (status) => {
    const of = request();
    const service = bed.newProcess();
    const first = await run(service, of);
    await first.complete({ ...ok('not kept'), status });
    // Its row may have been committed although the store could not say so.
    const second = await run(bed.newProcess(), of);
    expect([second.billingId, second.startedAt]).toEqual([first.billingId, first.startedAt]);
    await second.abandon(status);
    const third = await run(service, of);
    expect(third.billingId).toBe(first.billingId);
    await third.complete(ok('at last'));
    expect((await replayed(service, of)).body.toString()).toBe('at last');
  });

  it.each([401, 403, 409, 429])(
    'keeps the billing id of a failed run when its repetition is refused with status %d',
    async (status) => {
      const service = bed.newProcess();
      const of = request();
      const first = await run(service, of);
      await first.complete({ ...ok('not kept'), status: 503 });
      await (await run(service, of)).complete({ ...ok('refused'), status });
      const third = await run(bed.newProcess(), of);
      expect(third.billingId).toBe(first.billingId);
      await third.complete(ok('at last'));
    },
  );

  it('bills a repetition that the client left apart from the next run', async () => {
    const service = bed.newProcess();
    const of = request();
    const first = await run(service, of);
    await first.abandon(503);
    await (await run(service, of)).abandon(499);
    const third = await run(service, of);
    expect(third.billingId).not.toBe(first.billingId);
    await third.abandon(499);
  });

  it.each([401, 403, 409, 429, 499])('does not keep an answer with status %d', async (status) => {
    const service = bed.newProcess();
    const of = request();
    const first = await run(service, of);
    await first.complete({ ...ok('not kept'), status });
    const second = await run(service, { ...of, bodyHash: 'other' });
    expect(second.billingId).not.toBe(first.billingId);
    await second.abandon(499);
  });

  it('runs one of the waiting requests when the first one failed', async () => {
    const service = bed.newProcess();
    const of = request();
    const first = await run(service, of);
    const waiting = [service.begin(of), service.begin(of)];
    await first.complete({ ...ok('failed'), status: 500 });
    const second = await Promise.race(waiting);
    if (second.kind !== 'run') throw new Error('it was replayed');
    await second.complete(ok('second try'));
    const kinds = (await Promise.all(waiting)).map(({ kind }) => kind).sort();
    expect(kinds).toEqual(['replay', 'run']);
  });

  it('stops waiting when the client disconnects, without affecting the others', async () => {
    const service = bed.newProcess();
    const of = request();
    const first = await run(service, of);
    const client = new AbortController();
    const impatient = service.begin({ ...of, signal: client.signal });
    const patient = replayed(service, of);
    client.abort();
    await expect(impatient).rejects.toMatchObject({ code: 'client_cancelled' });
    await first.complete(ok('late'));
    expect((await patient).body.toString()).toBe('late');
  });

  it('waits for the answer of another process', async () => {
    const of = request();
    const first = await run(bed.newProcess(), of);
    const finish = { done: false };
    const other = bed.newProcess({
      onWait: () => {
        if (finish.done) return;
        finish.done = true;
        void first.complete(ok('from the other'));
      },
    });
    expect((await replayed(other, of)).body.toString()).toBe('from the other');
    expect(finish.done).toBe(true);
  });

  it('takes over when the owner died, and bills under the same id', async () => {
    const of = request();
    const dead = await run(bed.newProcess(), of);
    const before = bed.clock.time;
    const heir = await run(bed.newProcess(), of);
    expect(bed.clock.time - before).toBeGreaterThanOrEqual(15_000);
    expect(heir.billingId).toBe(dead.billingId);
    await heir.complete(ok('by the heir'));
    // It was not dead but slow. Its client must not see another answer than those who ask later.
    await expect(dead.complete(ok('by the dead'))).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect((await replayed(bed.newProcess(), of)).body.toString()).toBe('by the heir');
  });

  it('does not wait for the lease of a dead owner when it is alone on the store', async () => {
    const of = request();
    const dead = await run(bed.newProcess(), of);
    const alone = bed.newProcess();
    await alone.releaseOthers();
    const before = bed.clock.time;
    const heir = await run(alone, of);
    expect(bed.clock.time).toBe(before);
    expect(heir.billingId).toBe(dead.billingId);
    await heir.abandon(499);
  });

  /** A process whose store does some things in another way. It waits in real time. */
  const processWith = (changes: Partial<Store['idempotency']>) =>
    createIdempotency({
      repository: { ...bed.store.idempotency, ...changes },
      blobs: bed.blobs,
      clock: bed.clock,
      identity: { ownerId: randomUUID(), leaseMs: 15_000 },
      randomId: randomUUID,
    });

  it('runs a waiting request when the answer could not be stored, so that all see one answer', async () => {
    let isBroken = true;
    const complete: Store['idempotency']['complete'] = (...args) =>
      isBroken ? Promise.reject(new Error('the store is away')) : bed.store.idempotency.complete(...args);
    const service = processWith({ complete });
    const of = request();
    const first = await run(service, of);
    const waiting = run(service, of);
    await expect(first.complete(ok('answer'))).rejects.toThrow('the store is away');
    isBroken = false;
    const second = await waiting;
    expect(second.billingId).toBe(first.billingId);
    await second.complete(ok('second answer'));
    expect((await replayed(service, of)).body.toString()).toBe('second answer');
  });

  it('lets another process take over a run that failed while the store was away', async () => {
    const service = processWith({ release: () => Promise.reject(new Error('the store is away')) });
    const of = request();
    const failed = await run(service, of);
    const other = await run(service, request());
    await expect(failed.abandon(500)).rejects.toThrow('the store is away');
    await service.renewLeases(bed.clock.time + 3_600_000);
    const before = bed.clock.time;
    const heir = await run(bed.newProcess(), of);
    expect(bed.clock.time - before).toBeLessThan(60_000);
    expect(heir.billingId).toBe(failed.billingId);
    await heir.complete(ok('by the heir'));
    await other.complete(ok('still running'));
  });

  it('runs each key to one success, however often attempts fail', async () => {
    const attempt = fc.record({ key: fc.nat(3), process: fc.nat(1), status: fc.constantFrom(200, 422, 429, 500, 503) });
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { minLength: 1, maxLength: 25 }), async (attempts) => {
        const servers = [bed.newProcess(), bed.newProcess()];
        const prefix = randomUUID();
        const kept = new Map<string, string>();
        await Promise.all(
          attempts.map(async ({ key, process, status }, index) => {
            const of = request({ key: `${prefix}-${key}` });
            const begun = await servers[process]?.begin(of);
            if (begun?.kind === 'run') {
              const text = `${index}`;
              if (status === 200 || status === 422) {
                expect(kept.has(of.key)).toBe(false);
                kept.set(of.key, text);
              }
              await begun.complete({ ...ok(text), status });
            } else {
              expect(Buffer.from(begun?.answer.body as Uint8Array).toString()).toBe(kept.get(of.key));
            }
          }),
        );
      }),
      { numRuns: 15 },
    );
  });
});
