import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Account } from '../../packages/core/src/domain/principal.ts';
import {
  type AccountErasure,
  createAccountErasure,
} from '../../packages/server/src/services/access/account-erasure.ts';
import { type AccountsService, createAccounts } from '../../packages/server/src/services/access/accounts.ts';
import type { LineExecutor } from '../../packages/server/src/services/batches/line-run.ts';
import type { BatchRunner } from '../../packages/server/src/services/batches/runner.ts';
import { createIdempotency, type Idempotency } from '../../packages/server/src/services/idempotency/idempotency.ts';
import { BY } from '../fixtures/audit-entries.ts';
import { type Caller, createFileBed, type FileBed } from '../fixtures/file-bed.ts';

const HOUR_MS = 3_600_000;
const LINE = JSON.stringify({
  custom_id: 'a',
  method: 'POST',
  url: '/v1/embeddings',
  body: { model: 'm', input: 'x' },
});

describe('a deleted account', () => {
  let bed: FileBed;
  let accounts: AccountsService;
  let idempotency: Idempotency;
  let runner: BatchRunner;
  let gone: Caller;
  let other: Caller;
  const erasures: AccountErasure[] = [];
  const held: (() => void)[] = [];
  let hold = false;

  /** Lines wait while `hold` is set, until they are released or cancelled. */
  const executor: LineExecutor = {
    async execute(_endpoint, _body, { signal }) {
      if (hold) {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        held.push(resolve);
        signal.addEventListener('abort', () => reject(signal.reason));
        await promise;
      }
      return Buffer.from('{"embedding":[1]}');
    },
    errorBody: (_endpoint, error) => Buffer.from(JSON.stringify(error.toBody())),
    statusOf: ({ status }) => status,
  };

  async function* content(text: string): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }

  const upload = ({ principal }: Caller, text: string) =>
    bed.files.upload(principal.account.id, { filename: 'a.jsonl', content: content(text), purpose: () => 'batch' });

  async function storeAnswer({ principal }: Caller, body: Buffer): Promise<void> {
    const request = {
      accountId: principal.account.id,
      endpoint: 'POST /v1/embeddings',
      key: randomUUID(),
      bodyHash: 'hash',
      keepAnswer: true,
      signal: new AbortController().signal,
    };
    const run = await idempotency.begin(request);
    if (run.kind !== 'run') throw new Error('expected a new run');
    await run.complete({ status: 200, headers: {}, body });
  }

  async function orderBatch(caller: Caller) {
    const { id: inputFileId } = await upload(caller, `${LINE}\n`);
    const command = { inputFileId, endpoint: '/v1/embeddings', completionWindow: '24h', metadata: null } as const;
    return bed.batches(runner).create(caller.principal, command);
  }

  async function orderMessages({ principal }: Caller) {
    const messages = bed.messageBatches(runner);
    const line = { custom_id: 'a', method: 'POST', url: '/v1/messages', body: {} };
    const received = await messages.receive(principal, { content: content(JSON.stringify(line)) });
    return (await messages.create(principal, received, { requests: 1 })).batch;
  }

  const stored = async ({ principal }: Caller) => {
    const { id } = principal.account;
    return {
      files: (await bed.store.files.list(id, { limit: 100, order: 'asc' })).length,
      batches: (await bed.store.batches.list({ accountId: id, limit: 100 })).length,
      answers: (await bed.store.idempotency.stored(id)).items,
      requests: (await bed.store.requests.list({ accountId: id }, { limit: 100 })).length,
    };
  };
  const nothing = { files: 0, batches: 0, answers: 0, requests: 0 };

  function erasure(isMyTurn = async () => true): AccountErasure {
    const { store, retention } = bed;
    const created = createAccountErasure({
      ...store,
      retention,
      idempotency,
      requests: { eraseAccount: (id) => store.requests.removeBeyond(id, 0) },
      onCancel: runner.wake,
      isMyTurn,
      by: BY,
      clock: { now: bed.now },
      logger: { info() {}, error: (facts, text) => console.error(text, facts) },
    });
    erasures.push(created);
    return created;
  }

  beforeEach(async () => {
    hold = false;
    bed = await createFileBed();
    accounts = createAccounts({ accounts: bed.store.accounts, clock: { now: bed.now } });
    idempotency = createIdempotency({
      repository: bed.store.idempotency,
      blobs: bed.blobs,
      clock: { now: bed.now },
      identity: { ownerId: 'test', leaseMs: 15_000 },
      randomId: randomUUID,
    });
    runner = bed.runner(executor);
    runner.start();
    [gone, other] = [await bed.caller(), await bed.caller()];
    for (const caller of [gone, other]) {
      await upload(caller, 'kept');
      // One answer in the database, one in the blob store.
      for (const bytes of [10, 100_000]) await storeAnswer(caller, Buffer.alloc(bytes));
      for (const { id } of [await orderBatch(caller), await orderMessages(caller)]) {
        await expect.poll(async () => (await bed.store.batches.get(id))?.status).toBe('completed');
      }
    }
  });
  afterEach(async () => {
    for (const release of held.splice(0)) release();
    for (const each of erasures.splice(0)) await each.stop();
    await bed.close();
  });

  it('loses its files, batches, stored answers and keys, and no other account does', async () => {
    const blobsBefore = (await bed.blobFiles()).length;
    const otherBefore = await stored(other);
    expect(await stored(gone)).toEqual(otherBefore);
    await accounts.delete(gone.principal.account, BY);
    erasure().start();
    await expect.poll(() => stored(gone)).toEqual(nothing);
    await expect.poll(async () => (await bed.blobFiles()).length).toBe(blobsBefore / 2);
    expect(await stored(other)).toEqual(otherBefore);
    const [key] = await bed.store.keys.list({ accountId: gone.principal.account.id });
    expect(key?.revokedAt).not.toBeNull();
  });

  it('leaves nothing of its stored answers in the files of the database', async () => {
    const secret = 'the answer of a deleted account';
    await storeAnswer(gone, Buffer.from(secret.repeat(10)));
    const found = async () => {
      const names = (await readdir(bed.directory)).filter((name) => name.startsWith('baobab.sqlite'));
      const contents = await Promise.all(names.map((name) => readFile(join(bed.directory, name))));
      return contents.some((content) => content.includes(secret));
    };
    expect(await found()).toBe(true);
    await accounts.delete(gone.principal.account, BY);
    erasure().start();
    await expect.poll(found).toBe(false);
  });

  it('has its running batches cancelled and then erased', async () => {
    hold = true;
    await orderBatch(gone);
    await expect.poll(() => held.length).toBe(1);
    await accounts.delete(gone.principal.account, BY);
    erasure().start();
    const active = async () => (await bed.store.batches.list({ accountId: gone.principal.account.id, limit: 9 }))[0];
    await expect.poll(async () => (await active())?.cancellingAt ?? null).not.toBeNull();
    for (const release of held.splice(0)) release();
    await expect.poll(() => stored(gone)).toEqual(nothing);
  });

  it('is erased by the server whose turn it is, or on which it was deleted', async () => {
    const before = await stored(gone);
    await accounts.delete(gone.principal.account, BY);
    let asked = 0;
    const other = erasure(async () => {
      asked += 1;
      return false;
    });
    other.start();
    await expect.poll(() => asked).toBe(1);
    await other.stop();
    expect(await stored(gone)).toEqual(before);
    const own = erasure(async () => false);
    own.wake();
    await expect.poll(() => stored(gone)).toEqual(nothing);
  });

  it('counts as erased only when requests that were running can no longer store anything', async () => {
    const deleted = await accounts.delete(gone.principal.account, BY);
    const first = erasure();
    first.start();
    await expect.poll(() => stored(gone)).toEqual(nothing);
    await first.stop();
    // A request that was running stores its answer late.
    await storeAnswer(gone, Buffer.alloc(10));
    const erasedAt = async () => (await bed.store.accounts.get(deleted.id))?.erasedAt;
    expect(await erasedAt()).toBeNull();
    bed.advance(HOUR_MS);
    erasure().start();
    await expect.poll(erasedAt).toBeGreaterThanOrEqual((deleted.deletedAt ?? 0) + HOUR_MS);
    expect(await stored(gone)).toEqual(nothing);
  });

  it('does not count as erased when the server stops before it has looked for content', async () => {
    const deleted = await accounts.delete(gone.principal.account, BY);
    const { files, batches } = await stored(gone);
    await idempotency.eraseAccount(deleted.id);
    bed.advance(HOUR_MS);
    const { promise: stopped, resolve } = Promise.withResolvers<void>();
    const { keys } = bed.store;
    const list = keys.list;
    const stopping = erasure();
    // Its keys are looked for first.
    keys.list = (query) => {
      resolve(stopping.stop());
      return list(query);
    };
    onTestFinished(() => {
      keys.list = list;
    });
    stopping.start();
    await stopped;
    expect(await stored(gone)).toMatchObject({ files, batches });
    expect((await bed.store.accounts.get(deleted.id))?.erasedAt).toBeNull();
  });

  it('keeps its id and frees its name', async () => {
    const { account } = gone.principal;
    const deleted = await accounts.delete(account, BY);
    expect(deleted).toMatchObject({ id: account.id, name: `${account.name} ${account.id}` });
    expect(await accounts.delete(deleted, BY)).toEqual(deleted);
    expect(await accounts.find(account.name)).toBeUndefined();
    expect(((await accounts.create(account.name, {}, BY)) as Account).id).not.toBe(account.id);
    await expect(accounts.update(deleted, { rpm: 1 }, BY)).rejects.toThrow('This account was deleted');
    await expect(accounts.suspend(deleted, BY)).rejects.toThrow('This account was deleted');
  });
});
