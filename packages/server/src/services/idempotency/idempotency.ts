import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { StorageFullError } from '@baobab/core/errors/store-unavailable.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { IdempotencyRecord, IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { Quota } from '@baobab/core/ports/quotas.ts';
import { untilAborted } from '@baobab/core/runtime/abort.ts';
import { blobKeyOf, createRun, type KeptAnswer, type Run } from './run.ts';

export interface IdempotentRequest {
  accountId: string;
  /** Method and path. */
  endpoint: string;
  /** The header as it was sent. */
  key: string;
  /** Equal for equal requests. */
  bodyHash: string;
  /** False for accounts with zero retention: the key only protects while the request runs. */
  keepAnswer: boolean;
  signal: AbortSignal;
}

export interface Replay {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array | Readable;
}

export interface Idempotency {
  /** Runs the first of equal requests; the others wait for it and replay its answer. */
  begin(request: IdempotentRequest): Promise<Run | { kind: 'replay'; answer: Replay }>;
  /** Extends the leases of the runs of this process. */
  renewLeases(leaseUntil: number): Promise<void>;
  /** Lets the runs of other owners be taken over at once. */
  releaseOthers(): Promise<void>;
  /** Removes a bounded number of expired answers. True when there may be more. */
  sweep(): Promise<boolean>;
  /** Removes the stored answers of an account. Returns how many. */
  eraseAccount(accountId: string): Promise<number>;
  /** Larger answers are not stored. */
  readonly maxBodyBytes: number;
}

export interface IdempotencyDependencies {
  repository: IdempotencyRepository;
  blobs: BlobStore;
  clock: Clock;
  /** Owns the runs. */
  identity: Pick<ProcessIdentity, 'ownerId' | 'leaseMs'>;
  randomId: () => string;
  retentionMs?: number | undefined;
  /** Larger bodies go to the blob store. */
  inlineBytes?: number | undefined;
  maxBodyBytes?: number | undefined;
  /** Answers are not kept while the disk is low on space. */
  space?: DiskSpace | undefined;
  /** For each account: keys within the retention, and bytes of their answers. */
  quota?: Quota | undefined;
  wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** Removed at once. */
const SWEEP_RECORDS = 500;
const POLL_MS = { first: 25, longest: 1_000 };

/** A key that this process runs or waits for. Later requests with the key wait for it. */
interface Pending {
  bodyHash: string;
  /** Undefined: there was no answer, the next request may run. */
  done: Promise<KeptAnswer | undefined>;
  resolve(answer?: KeptAnswer): void;
}

/**
 * Order: the ledger row is committed, then the answer is stored here, then it is sent. A crash before the commit bills nothing. A
 * crash after it leaves a run without an owner. The client's retry repeats it under the same billing id, so that the second row is
 * ignored.
 */
export function createIdempotency(dependencies: IdempotencyDependencies): Idempotency {
  const { repository, blobs, clock, identity, randomId, space } = dependencies;
  const { ownerId, leaseMs } = identity;
  const { retentionMs = DAY_MS } = dependencies;
  const { inlineBytes = 65_536, maxBodyBytes = 67_108_864, quota = { items: 0, bytes: 0 } } = dependencies;
  const wait = dependencies.wait ?? ((ms, signal) => delay(ms, undefined, { signal }));
  const pending = new Map<string, Pending>();
  /** Ids of the runs of this process. */
  const running = new Set<string>();

  const claim = async (id: string, { accountId, bodyHash }: IdempotentRequest) => {
    const now = clock.now();
    const runId = randomId();
    const times = { leaseUntil: now + leaseMs, expiresAt: now + retentionMs, now };
    const result = await repository
      .claim({ id, accountId, bodyHash, runId, ownerId, ...times }, quota)
      .catch((error) => {
        throw error instanceof StorageFullError ? errors.storageFull() : error;
      });
    if (result === undefined) throw tooManyKeys(quota.items);
    if (result.replacedRunId !== undefined) await blobs.delete(blobKeyOf({ id, runId: result.replacedRunId }));
    return { ...result, isRepeated: result.record.runId !== runId };
  };

  /** Polls the store until this process may run the request, or until its answer exists. */
  async function settleClaim(
    id: string,
    request: IdempotentRequest,
  ): Promise<{ record: IdempotencyRecord; isRepeated: boolean }> {
    const { bodyHash, signal } = request;
    for (let pauseMs = POLL_MS.first; ; pauseMs = Math.min(2 * pauseMs, POLL_MS.longest)) {
      const { claimed, record, isRepeated } = await claim(id, request);
      if (claimed || record.answer || record.bodyHash !== bodyHash) return { record, isRepeated };
      await untilAborted(wait(pauseMs, signal), signal, cancellation);
    }
  }

  async function replay({ status, headers, body, blobKey }: KeptAnswer): Promise<{ kind: 'replay'; answer: Replay }> {
    const bytes = body ?? (await blobs.get(blobKey));
    if (!bytes) throw errors.internal(new Error(`the stored answer ${blobKey} is gone`));
    return { kind: 'replay', answer: { status, headers, body: bytes } };
  }

  function startRun(
    { record: { runId, expiresAt }, isRepeated }: { record: IdempotencyRecord; isRepeated: boolean },
    id: string,
    request: IdempotentRequest,
    entry: Pending,
  ): Run {
    const { accountId, keepAnswer } = request;
    running.add(id);
    return createRun(
      { repository, blobs, clock, space, quota, inlineBytes, maxBodyBytes, leaseMs },
      {
        ownership: { id, accountId, runId, ownerId },
        keepAnswer,
        isRepeated,
        startedAt: expiresAt - retentionMs,
        onEnd(answer) {
          running.delete(id);
          pending.delete(id);
          entry.resolve(answer);
        },
      },
    );
  }

  return {
    maxBodyBytes,

    async begin(sent) {
      assertKey(sent.key);
      const id = recordId(sent);
      const request = sent.keepAnswer ? sent : { ...sent, bodyHash: keyedHash(sent) };
      for (;;) {
        const running = pending.get(id);
        if (!running) break;
        if (running.bodyHash !== request.bodyHash) throw keyReused();
        const answer = await untilAborted(running.done, request.signal, cancellation);
        if (answer) return replay(answer);
      }

      const { promise: done, resolve } = Promise.withResolvers<KeptAnswer | undefined>();
      const entry: Pending = { bodyHash: request.bodyHash, done, resolve };
      pending.set(id, entry);
      const giveUp = (answer?: KeptAnswer) => {
        pending.delete(id);
        resolve(answer);
      };
      try {
        const settled = await settleClaim(id, request);
        const { record } = settled;
        if (record.bodyHash !== request.bodyHash) throw keyReused();
        if (!record.answer) return startRun(settled, id, request, entry);
        const answer = { ...record.answer, blobKey: blobKeyOf(record) };
        giveUp(answer);
        return await replay(answer);
      } catch (error) {
        giveUp();
        throw error;
      }
    },

    async renewLeases(leaseUntil) {
      // Only those in progress: a run that failed while the store was away would keep its lease, and its retries wait forever.
      if (running.size > 0) await repository.renew(ownerId, [...running], leaseUntil);
    },

    releaseOthers: () => repository.releaseOthers(ownerId),

    async eraseAccount(accountId) {
      let erased = 0;
      for (;;) {
        const removed = await repository.deleteOfAccount(accountId, { now: clock.now(), limit: SWEEP_RECORDS });
        for (const record of removed) await blobs.delete(blobKeyOf(record));
        erased += removed.length;
        if (removed.length < SWEEP_RECORDS) return erased;
      }
    },

    async sweep() {
      const removed = await repository.deleteExpired(clock.now(), SWEEP_RECORDS);
      for (const record of removed) await blobs.delete(blobKeyOf(record));
      return removed.length === SWEEP_RECORDS;
    },
  };
}

const recordId = ({ accountId, endpoint, key }: IdempotentRequest): string =>
  createHash('sha256').update(`${accountId}\n${endpoint}\n${key}`).digest('hex');

/** Reveals nothing about the body without the key, which is not stored. */
const keyedHash = ({ key, bodyHash }: IdempotentRequest): string =>
  createHash('sha256').update(`${key}\n${bodyHash}`).digest('hex');

function assertKey(key: string): void {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return;
  throw errors.invalidParameter(
    ['idempotencyKey'],
    'The header Idempotency-Key must have 1 to 255 visible ASCII characters, for example a UUID.',
  );
}

const tooManyKeys = (limit: number) =>
  new ApiError(
    'capacity_exceeded',
    `This account used its quota of ${limit} idempotency keys within 24 hours. ` +
      'Send the request without the header Idempotency-Key, or wait until older keys expire.',
    { field: ['idempotencyKey'], retryAfterSeconds: 60 },
  );

const keyReused = () =>
  new ApiError(
    'idempotency_key_reused',
    'This Idempotency-Key was used with another request body. Use a new key for a new request.',
    { field: ['idempotencyKey'] },
  );
