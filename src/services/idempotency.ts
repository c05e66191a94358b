import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { DAY_MS } from '../domain/time/durations.ts';
import { ApiError } from '../errors/api-error.ts';
import { cancellation } from '../errors/cancellation.ts';
import { errors } from '../errors/errors.ts';
import { StorageFullError } from '../errors/store-unavailable.ts';
import type { BlobStore } from '../ports/blobs.ts';
import type { Clock } from '../ports/clock.ts';
import type { DiskSpace } from '../ports/disk-space.ts';
import type { IdempotencyRecord, IdempotencyRepository, Ownership, StoredAnswer } from '../ports/idempotency.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import type { Quota } from '../ports/quotas.ts';
import { untilAborted } from '../runtime/abort.ts';

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

export interface Answer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
}

export interface Replay {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array | Readable;
}

/** Exactly one of `complete` and `abandon` must be called, also after a failure. */
export interface Run {
  kind: 'run';
  /** For the ledger. The same when the run is repeated after a crash, so that it is billed once. */
  billingId: string;
  /** When it ran first. The same when the run is repeated. */
  startedAt: number;
  /**
   * Stores the answer, if answers with its status are stored. Resolves when it is durable. Null body: it was too large to buffer. Fails
   * when another process has taken the run over: the answer of that one counts, and a retry gets it.
   */
  complete(answer: Omit<Answer, 'body'> & { body: Uint8Array | null }): Promise<void>;
  /**
   * There is no whole answer. After a failure of the server (5xx) the next request with the key repeats the run: its row may be in the
   * ledger although the store never said so. After others it is a new one, or a client that leaves at the end would pay once for many.
   */
  abandon(status: number): Promise<void>;
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
  sweepRecords?: number | undefined;
  wait?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** Stored besides 2xx: errors that the same request would get again. Not 409: the model may be served in the region a moment later. */
const KEPT_STATUS: readonly number[] = [400, 404, 413, 422];
const POLL_MS = { first: 25, longest: 1_000 };

/** A key that this process runs or waits for. Later requests with the key wait for it. */
interface Pending {
  bodyHash: string;
  /** Undefined: there was no answer, the next request may run. */
  done: Promise<KeptAnswer | undefined>;
  resolve(answer?: KeptAnswer): void;
}

type Claimed = Pick<IdempotentRequest, 'accountId' | 'keepAnswer'> & { id: string };

type KeptAnswer = StoredAnswer & { blobKey: string };

/**
 * Order: the ledger row is committed, then the answer is stored here, then it is sent. A crash before the commit bills nothing. A
 * crash after it leaves a run without an owner. The client's retry repeats it under the same billing id, so that the second row is
 * ignored.
 */
export function createIdempotency(dependencies: IdempotencyDependencies): Idempotency {
  const { repository, blobs, clock, identity, randomId, space } = dependencies;
  const { ownerId, leaseMs } = identity;
  const { retentionMs = DAY_MS, sweepRecords = 500 } = dependencies;
  const { inlineBytes = 65_536, maxBodyBytes = 67_108_864, quota = { items: 0, bytes: 0 } } = dependencies;
  const wait = dependencies.wait ?? ((ms, signal) => delay(ms, undefined, { signal }));
  const pending = new Map<string, Pending>();
  /** Ids of the runs of this process. */
  const running = new Set<string>();

  const claim = async (id: string, { accountId, bodyHash }: IdempotentRequest) => {
    const now = clock.now();
    const times = { leaseUntil: now + leaseMs, expiresAt: now + retentionMs, now };
    const result = await repository
      .claim({ id, accountId, bodyHash, runId: randomId(), ownerId, ...times }, quota)
      .catch((error) => {
        throw error instanceof StorageFullError ? errors.storageFull() : error;
      });
    if (result === undefined) throw tooManyKeys(quota.items);
    if (result.replacedRunId !== undefined) await blobs.delete(blobKeyOf({ id, runId: result.replacedRunId }));
    return result;
  };

  /** Polls the store until this process may run the request, or until its answer exists. */
  async function settleClaim(id: string, request: IdempotentRequest): Promise<IdempotencyRecord> {
    const { bodyHash, signal } = request;
    for (let pauseMs = POLL_MS.first; ; pauseMs = Math.min(2 * pauseMs, POLL_MS.longest)) {
      const { claimed, record } = await claim(id, request);
      if (claimed || record.answer) return record;
      if (record.bodyHash !== bodyHash) return record;
      await untilAborted(wait(pauseMs, signal), signal, cancellation);
    }
  }

  async function replay({ status, headers, body, blobKey }: KeptAnswer): Promise<{ kind: 'replay'; answer: Replay }> {
    const bytes = body ?? (await blobs.get(blobKey));
    if (!bytes) throw errors.internal(new Error(`the stored answer ${blobKey} is gone`));
    return { kind: 'replay', answer: { status, headers, body: bytes } };
  }

  function startRun(
    { runId, expiresAt }: IdempotencyRecord,
    { id, accountId, keepAnswer }: Claimed,
    entry: Pending,
  ): Run {
    const ownership: Ownership = { id, accountId, runId, ownerId };
    const blobKey = blobKeyOf(ownership);
    running.add(id);
    let ended = false;
    const end = (answer?: KeptAnswer) => {
      running.delete(id);
      pending.delete(id);
      entry.resolve(answer);
    };
    const hasRoom = async (bytes: number): Promise<boolean> =>
      quota.bytes === 0 || (await repository.stored(accountId)).bytes + bytes <= quota.bytes;
    /**
     * Over the quota, the key is forgotten and a retry is a new request: repeated under the same billing id, it would be free for as
     * long as the account keeps its quota full. On a disk that is low on space, which is not the client's doing, it is free.
     */
    const store = async ({ status, headers, body }: Answer): Promise<void> => {
      const bytes = body.length;
      const inline = bytes <= inlineBytes;
      if ((await space?.status())?.isLow) return repository.release(ownership);
      if (!inline && !(await hasRoom(bytes))) return repository.abandon(ownership);
      if (!inline) {
        // The blob of a process that took the run over has the same name and must not be replaced.
        if ((await repository.renew(ownerId, [id], clock.now() + leaseMs)).length === 0) throw runLost();
        await blobs.put(blobKey, single(body));
      }
      const answer = { status, headers, body: inline ? body : null, bytes };
      const outcome = await repository.complete(ownership, answer, quota);
      if (!inline && outcome === 'over quota') await blobs.delete(blobKey);
      if (outcome === 'lost') throw runLost();
    };
    const abandon = async (status: number): Promise<void> => {
      if (ended) return;
      ended = true;
      const isRepeated = keepAnswer && status >= 500;
      await (isRepeated ? repository.release(ownership) : repository.abandon(ownership)).finally(() => end());
    };
    return {
      kind: 'run',
      billingId: `idem_${runId}`,
      startedAt: expiresAt - retentionMs,
      abandon,
      async complete({ status, headers, body }) {
        if (!isKept(status)) return abandon(status);
        if (ended) return;
        ended = true;
        const answer = body && { status, headers, body };
        let isSettled = false;
        try {
          if (!keepAnswer) await repository.abandon(ownership);
          else if (answer && body.length <= maxBodyBytes) await store(answer);
          else await repository.release(ownership);
          isSettled = true;
        } finally {
          // An answer that may not be stored must not be seen by anyone: a retry would get another one.
          end(isSettled && answer ? { ...answer, bytes: answer.body.length, blobKey } : undefined);
        }
      },
    };
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
        const record = await settleClaim(id, request);
        if (record.bodyHash !== request.bodyHash) throw keyReused();
        if (!record.answer) return startRun(record, { ...request, id }, entry);
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
        const removed = await repository.deleteOfAccount(accountId, { now: clock.now(), limit: sweepRecords });
        for (const record of removed) await blobs.delete(blobKeyOf(record));
        erased += removed.length;
        if (removed.length < sweepRecords) return erased;
      }
    },

    async sweep() {
      const removed = await repository.deleteExpired(clock.now(), sweepRecords);
      for (const record of removed) await blobs.delete(blobKeyOf(record));
      return removed.length === sweepRecords;
    },
  };
}

const isKept = (status: number): boolean => (status >= 200 && status < 300) || KEPT_STATUS.includes(status);

const recordId = ({ accountId, endpoint, key }: IdempotentRequest): string =>
  createHash('sha256').update(`${accountId}\n${endpoint}\n${key}`).digest('hex');

/** Reveals nothing about the body without the key, which is not stored. */
const keyedHash = ({ key, bodyHash }: IdempotentRequest): string =>
  createHash('sha256').update(`${key}\n${bodyHash}`).digest('hex');

const blobKeyOf = ({ id, runId }: { id: string; runId: string }): string =>
  `idempotency/${id.slice(0, 2)}/${id}-${runId}`;

async function* single(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}

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

/** This process did not reach the store for as long as its lease lasts. */
const runLost = () =>
  errors.storageUnavailable(new Error('another process has taken over the run of this idempotency key'));

const keyReused = () =>
  new ApiError(
    'idempotency_key_reused',
    'This Idempotency-Key was used with another request body. Use a new key for a new request.',
    { field: ['idempotencyKey'] },
  );
