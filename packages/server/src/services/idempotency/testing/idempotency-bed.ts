import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { Quota } from '@baobab/core/ports/quotas.ts';
import { account } from '../../../../../../test/contracts/key-fixtures.ts';
import { someEntry } from '../../../../../../test/fixtures/audit-entries.ts';
import { createDiskBlobStore, type DiskBlobStore } from '../../../adapters/blobs/disk.ts';
import { openStore, type Store } from '../../../adapters/store.ts';
import { createIdempotency, type Idempotency, type IdempotentRequest } from '../idempotency.ts';
import type { Run } from '../run.ts';

const NEVER = new AbortController().signal;

interface ProcessOptions {
  ownerId?: string;
  maxBodyBytes?: number;
  quota?: Quota;
  space?: DiskSpace;
  onWait?: () => void;
}

export interface IdempotencyBed {
  store: Store;
  blobs: DiskBlobStore;
  clock: { time: number; now(): number };
  /** A server process on the same store. While it waits for another one, its clock moves on. */
  newProcess(options?: ProcessOptions): Idempotency;
  close(): Promise<void>;
}

/** A store on the disk with these accounts, shared by several processes. */
export async function openIdempotencyBed(accountIds: readonly string[]): Promise<IdempotencyBed> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-idempotency-'));
  const store = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.db') });
  const blobs = createDiskBlobStore({ directory: join(directory, 'blobs'), now: Date.now });
  for (const id of accountIds) await store.accounts.create(account({ id, name: id }), someEntry());
  const clock = { time: Date.UTC(2026, 10, 15), now: () => clock.time };
  return {
    store,
    blobs,
    clock,
    newProcess: (options = {}) =>
      createIdempotency({
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
      }),
    async close() {
      await store.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export const request = (changes: Partial<IdempotentRequest> = {}): IdempotentRequest => ({
  accountId: 'acct_1',
  endpoint: 'POST /v1/embeddings',
  key: randomUUID(),
  bodyHash: 'body',
  keepAnswer: true,
  signal: NEVER,
  ...changes,
});

export const ok = (text: string) => ({
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(text) as Uint8Array,
});

export async function run(service: Idempotency, of: IdempotentRequest): Promise<Run> {
  const begun = await service.begin(of);
  if (begun.kind !== 'run') throw new Error('it was replayed');
  return begun;
}

export async function replayed(service: Idempotency, of: IdempotentRequest) {
  const begun = await service.begin(of);
  if (begun.kind !== 'replay') throw new Error('it was run');
  const { status, headers, body } = begun.answer;
  return { status, headers, body: body instanceof Uint8Array ? Buffer.from(body) : await buffer(body) };
}
