import { errors } from '@baobab/core/errors/errors.ts';
import type { BlobStore } from '@baobab/core/ports/blobs.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { IdempotencyRepository, Ownership, StoredAnswer } from '@baobab/core/ports/idempotency.ts';
import type { Quota } from '@baobab/core/ports/quotas.ts';

export interface Answer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
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
   * ledger although the store never confirmed it. A repetition that is refused before it runs changes nothing about that. After others it
   * is a new one, or a client that leaves at the end would pay once for many.
   */
  abandon(status: number): Promise<void>;
}

export type KeptAnswer = StoredAnswer & { blobKey: string };

export interface RunDependencies {
  repository: IdempotencyRepository;
  blobs: BlobStore;
  clock: Clock;
  space: DiskSpace | undefined;
  quota: Quota;
  inlineBytes: number;
  maxBodyBytes: number;
  leaseMs: number;
}

export interface RunOptions {
  ownership: Ownership;
  keepAnswer: boolean;
  /** An earlier run of the request failed, or its process died. */
  isRepeated: boolean;
  startedAt: number;
  /** Called once, with the answer if others may have it. */
  onEnd(answer?: KeptAnswer): void;
}

/** Stored besides 2xx: errors that the same request would get again. Not 409: the model may be served in the region a moment later. */
const KEPT_STATUS: readonly number[] = [400, 404, 413, 422];

/** The client left while it ran: what it got is billed. */
const LEFT_STATUS = 499;

const isKept = (status: number): boolean => (status >= 200 && status < 300) || KEPT_STATUS.includes(status);

export const blobKeyOf = ({ id, runId }: { id: string; runId: string }): string =>
  `idempotency/${id.slice(0, 2)}/${id}-${runId}`;

/** The run of a request by this process, which owns its key. */
export function createRun(dependencies: RunDependencies, options: RunOptions): Run {
  const { ownership, keepAnswer, isRepeated, startedAt, onEnd } = options;
  const { repository, blobs, clock, space, quota, inlineBytes, maxBodyBytes, leaseMs } = dependencies;
  const { id, accountId, runId, ownerId } = ownership;
  const blobKey = blobKeyOf(ownership);
  let ended = false;

  const hasRoom = async (bytes: number): Promise<boolean> =>
    quota.bytes === 0 || (await repository.stored(accountId)).bytes + bytes <= quota.bytes;
  /**
   * Over the quota, the key is forgotten and a retry is a new request: repeated under the same billing id, it would be free for as
   * long as the account keeps its quota full. On a disk that is low on space, which is not the client's fault, it is free.
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
    const mayBeBilled = status >= 500 || (isRepeated && status !== LEFT_STATUS);
    await (keepAnswer && mayBeBilled ? repository.release(ownership) : repository.abandon(ownership)).finally(() =>
      onEnd(),
    );
  };
  return {
    kind: 'run',
    billingId: `idem_${runId}`,
    startedAt,
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
        onEnd(isSettled && answer ? { ...answer, bytes: answer.body.length, blobKey } : undefined);
      }
    },
  };
}

async function* single(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body;
}

/** This process did not reach the store for as long as its lease lasts. */
const runLost = () =>
  errors.storageUnavailable(new Error('another process has taken over the run of this idempotency key'));
