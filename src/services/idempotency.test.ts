import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { account } from '../../test/contracts/key-fixtures.ts';
import { createDiskBlobStore, type DiskBlobStore } from '../adapters/blobs/disk.ts';
import { openStore, type Store } from '../adapters/store.ts';
import type { DiskSpace } from '../ports/disk-space.ts';
import type { Quota } from '../ports/quotas.ts';
import { createIdempotency, type Idempotency, type IdempotentRequest, type Run } from './idempotency.ts';

const NEVER = new AbortController().signal;
const DAY_MS = 86_400_000;

let directory: string;
let store: Store;
let blobs: DiskBlobStore;
const clock = { time: Date.UTC(2026, 10, 15), now: () => clock.time };

/** A server process on the same store. While it waits for another one, its clock moves on. */
function newProcess(
  options: { ownerId?: string; maxBodyBytes?: number; quota?: Quota; space?: DiskSpace; onWait?: () => void } = {},
): Idempotency {
  return createIdempotency({
    repository: store.idempotency,
    blobs,
    clock,
    identity: { ownerId: options.ownerId ?? randomUUID(), leaseMs: 15_000 },
    randomId: randomUUID,
    maxBodyBytes: options.maxBodyBytes,
    quota: options.quota,
    space: options.space,
    wait: async (ms) => {
      options.onWait?.();
      clock.time += ms;
    },
  });
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'baobab-idempotency-'));
  store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.db') });
  blobs = createDiskBlobStore({ directory: join(directory, 'blobs'), now: Date.now });
  for (const id of ['acct_1', 'acct_2', 'acct_3', 'acct_4', 'acct_5'])
    await store.accounts.create(account({ id, name: id }));
});
afterAll(async () => {
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const request = (changes: Partial<IdempotentRequest> = {}): IdempotentRequest => ({
  accountId: 'acct_1',
  endpoint: 'POST /v1/embeddings',
  key: randomUUID(),
  bodyHash: 'body',
  keepAnswer: true,
  signal: NEVER,
  ...changes,
});

const ok = (text: string) => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(text) as Uint8Array,
});

async function run(service: Idempotency, of: IdempotentRequest): Promise<Run> {
  const begun = await service.begin(of);
  if (begun.kind !== 'run') throw new Error('it was replayed');
  return begun;
}

async function replayed(service: Idempotency, of: IdempotentRequest) {
  const begun = await service.begin(of);
  if (begun.kind !== 'replay') throw new Error('it was run');
  const { status, headers, body } = begun.answer;
  return { status, headers, body: body instanceof Uint8Array ? Buffer.from(body) : await buffer(body) };
}

describe('idempotency', () => {
  it('runs once, then replays status, headers and body, also in another process', async () => {
    const first = newProcess();
    const of = request();
    await (await run(first, of)).complete({ ...ok('hello'), status: 201 });
    const expected = { status: 201, headers: { 'content-type': 'application/json' }, body: Buffer.from('hello') };
    expect(await replayed(first, of)).toEqual(expected);
    expect(await replayed(newProcess(), of)).toEqual(expected);
  });

  it('lets thirty equal requests at once run once', async () => {
    const service = newProcess();
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
    const service = newProcess();
    const of = request();
    await (await run(service, of)).complete(ok('x'));
    await (await run(service, { ...of, accountId: 'acct_2' })).abandon(499);
    await (await run(service, { ...of, endpoint: 'POST /v1/rerank' })).abandon(499);
    await (await run(service, { ...of, key: `${of.key}0` })).abandon(499);
  });

  it('refuses another body, while the first runs and after', async () => {
    const service = newProcess();
    const of = request();
    const first = await run(service, of);
    const other = { ...of, bodyHash: 'other' };
    const reused = { code: 'idempotency_key_reused', status: 422, param: 'idempotencyKey' };
    await expect(service.begin(other)).rejects.toMatchObject(reused);
    await expect(newProcess().begin(other)).rejects.toMatchObject(reused);
    await first.complete(ok('x'));
    await expect(service.begin(other)).rejects.toMatchObject(reused);
  });

  it.each(['', ' ', 'a b', 'é', 'x'.repeat(256), 'a\n'])('refuses the key %j', async (key) => {
    await expect(newProcess().begin(request({ key }))).rejects.toMatchObject({
      code: 'invalid_parameter',
      status: 400,
    });
  });

  it.each([200, 201, 400, 404, 413, 422])('keeps an answer with status %d', async (status) => {
    const service = newProcess();
    const of = request();
    await (await run(service, of)).complete({ ...ok('kept'), status });
    expect((await replayed(service, of)).status).toBe(status);
  });

  it.each([500, 503, 504])('repeats a run that failed with status %d under its billing id', async (status) => {
    const of = request();
    const service = newProcess();
    const first = await run(service, of);
    await first.complete({ ...ok('not kept'), status });
    // Its row may have been committed although the store could not say so.
    const second = await run(newProcess(), of);
    expect([second.billingId, second.startedAt]).toEqual([first.billingId, first.startedAt]);
    await second.abandon(status);
    const third = await run(service, of);
    expect(third.billingId).toBe(first.billingId);
    await third.complete(ok('at last'));
    expect((await replayed(service, of)).body.toString()).toBe('at last');
  });

  it.each([401, 403, 409, 429, 499])('does not keep an answer with status %d', async (status) => {
    const service = newProcess();
    const of = request();
    const first = await run(service, of);
    await first.complete({ ...ok('not kept'), status });
    const second = await run(service, { ...of, bodyHash: 'other' });
    expect(second.billingId).not.toBe(first.billingId);
    await second.abandon(499);
  });

  it('runs one of the waiting requests when the first one failed', async () => {
    const service = newProcess();
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
    const service = newProcess();
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
    const first = await run(newProcess(), of);
    const finish = { done: false };
    const other = newProcess({
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
    const dead = await run(newProcess(), of);
    const before = clock.time;
    const heir = await run(newProcess(), of);
    expect(clock.time - before).toBeGreaterThanOrEqual(15_000);
    expect(heir.billingId).toBe(dead.billingId);
    await heir.complete(ok('by the heir'));
    // It was not dead but slow. Its client must not see another answer than those who ask later.
    await expect(dead.complete(ok('by the dead'))).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect((await replayed(newProcess(), of)).body.toString()).toBe('by the heir');
  });

  it('does not wait for the lease of a dead owner when it is alone on the store', async () => {
    const of = request();
    const dead = await run(newProcess(), of);
    const alone = newProcess();
    await alone.releaseOthers();
    const before = clock.time;
    const heir = await run(alone, of);
    expect(clock.time).toBe(before);
    expect(heir.billingId).toBe(dead.billingId);
    await heir.abandon(499);
  });

  it('keeps large bodies in the blob store and removes them after a day', async () => {
    const service = newProcess();
    const of = request();
    const body = randomBytes(200_000);
    await (await run(service, of)).complete({ ...ok(''), body });
    expect((await replayed(newProcess(), of)).body.equals(body)).toBe(true);
    const stored = async () => {
      let count = 0;
      for await (const _ of blobs.list('idempotency/')) count += 1;
      return count;
    };
    expect(await stored()).toBe(1);
    clock.time += DAY_MS;
    while (await service.sweep());
    expect(await stored()).toBe(0);
    await (await run(service, of)).abandon(499);
  });

  it('repeats a run under its billing id when the answer was too large to keep', async () => {
    const service = newProcess({ maxBodyBytes: 10 });
    const of = request();
    const first = await run(service, of);
    await first.complete(ok('longer than ten bytes'));
    const second = await run(service, of);
    expect(second.billingId).toBe(first.billingId);
    await second.complete({ ...ok(''), body: null });
    const third = await run(newProcess(), of);
    expect(third.billingId).toBe(first.billingId);
    await third.complete(ok('short'));
    expect((await replayed(service, of)).body.toString()).toBe('short');
  });

  it('does not keep answers over the quota of bytes, and runs their retries as new requests', async () => {
    const service = newProcess({ quota: { items: 0, bytes: 200_000 } });
    const blobFiles = async () => {
      const found = [];
      for await (const { key } of blobs.list('idempotency/')) found.push(key);
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
    const service = newProcess();
    const of = request({ keepAnswer: false, accountId: 'acct_5' });
    const first = await run(service, of);
    expect(await store.idempotency.stored('acct_5')).toEqual({ items: 1, bytes: 0 });
    const waiting = replayed(service, of);
    await expect(newProcess().begin({ ...of, bodyHash: 'other' })).rejects.toMatchObject({ status: 422 });
    await first.complete({ ...ok(''), body: randomBytes(100_000) });
    expect((await waiting).body).toHaveLength(100_000);
    expect(await store.idempotency.stored('acct_5')).toEqual({ items: 0, bytes: 0 });
    const second = await run(service, of);
    expect(second.billingId).not.toBe(first.billingId);
    await second.complete({ ...ok(''), body: null });
    expect(await store.idempotency.stored('acct_5')).toEqual({ items: 0, bytes: 0 });
  });

  it('keeps no answer while the disk is low on space, and bills the retry once', async () => {
    const status = { freeBytes: 1, reserveBytes: 2, isLow: true };
    const service = newProcess({ space: { status: async () => status } });
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
    const service = newProcess({ quota: { items: 2, bytes: 0 } });
    const known = request({ accountId: 'acct_4' });
    await (await run(service, known)).complete({ ...ok('{}'), status: 404 });
    await (await run(service, request({ accountId: 'acct_4' }))).complete({ ...ok('{}'), status: 422 });
    const refused = { code: 'capacity_exceeded', status: 429, message: expect.stringContaining('quota of 2') };
    await expect(service.begin(request({ accountId: 'acct_4' }))).rejects.toMatchObject(refused);
    expect((await replayed(service, known)).status).toBe(404);
    clock.time += DAY_MS;
    while (await service.sweep());
    await (await run(service, request({ accountId: 'acct_4' }))).abandon(499);
  });

  it('does not replace the large answer of a process that took over', async () => {
    const of = request();
    const slow = await run(newProcess(), of);
    const heir = await run(newProcess(), of);
    const large = (fill: number) => ({ ...ok(''), body: Buffer.alloc(100_000, fill) });
    await heir.complete(large(1));
    await expect(slow.complete(large(2))).rejects.toMatchObject({ code: 'storage_unavailable' });
    expect((await replayed(newProcess(), of)).body).toEqual(large(1).body);
  });

  it('runs a waiting request when the answer could not be stored, so that all see one answer', async () => {
    let isBroken = true;
    const complete: Store['idempotency']['complete'] = (...args) =>
      isBroken ? Promise.reject(new Error('the store is away')) : store.idempotency.complete(...args);
    const repository = { ...store.idempotency, complete };
    const identity = { ownerId: 'failing', leaseMs: 15_000 };
    const service = createIdempotency({ repository, blobs, clock, identity, randomId: randomUUID });
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
    const repository = { ...store.idempotency, release: () => Promise.reject(new Error('the store is away')) };
    const identity = { ownerId: 'cut-off', leaseMs: 15_000 };
    const service = createIdempotency({ repository, blobs, clock, identity, randomId: randomUUID });
    const of = request();
    const failed = await run(service, of);
    const other = await run(service, request());
    await expect(failed.abandon(500)).rejects.toThrow('the store is away');
    await service.renewLeases(clock.time + 3_600_000);
    const before = clock.time;
    const heir = await run(newProcess(), of);
    expect(clock.time - before).toBeLessThan(60_000);
    expect(heir.billingId).toBe(failed.billingId);
    await heir.complete(ok('by the heir'));
    await other.complete(ok('still running'));
  });

  it('runs each key to one success, however often attempts fail', async () => {
    const attempt = fc.record({ key: fc.nat(3), process: fc.nat(1), status: fc.constantFrom(200, 422, 429, 500, 503) });
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { minLength: 1, maxLength: 25 }), async (attempts) => {
        const servers = [newProcess(), newProcess()];
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
