import type { Quota, StoredAmount } from './quotas.ts';

/** One use of an Idempotency-Key: its owner while it runs, then its answer. */
export interface IdempotencyRecord {
  /** Made of account, endpoint and key. */
  id: string;
  accountId: string;
  bodyHash: string;
  /** Stays the same when a run is repeated after its owner died, so that it is billed once. */
  runId: string;
  ownerId: string;
  /** Milliseconds since 1970. A run whose lease is over has lost its owner. */
  leaseUntil: number;
  expiresAt: number;
  /** Null while it runs. */
  answer: StoredAnswer | null;
}

export interface StoredAnswer {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** Null: the body is in the blob store. */
  body: Uint8Array | null;
  /** Size of the body, wherever it is. */
  bytes: number;
}

export type IdempotencyClaim = Omit<IdempotencyRecord, 'answer'> & { now: number };

export type Ownership = Pick<IdempotencyRecord, 'id' | 'accountId' | 'runId' | 'ownerId'>;

export interface ClaimResult {
  /** The caller runs the request, with the record's run id, which may be an earlier one. */
  claimed: boolean;
  record: IdempotencyRecord;
  /** Run id of an expired record that was replaced; its blob can be deleted. */
  replacedRunId: string | undefined;
}

/** Every change is one transaction. A quota counts the records of an account, and the bytes of its stored answers. */
export interface IdempotencyRepository {
  /**
   * Claims a new or expired record, or one with the same body whose owner's lease is over. An owner may claim its own run again: it
   * knows that the run is not in progress. Undefined when a new record would pass the quota.
   */
  claim(claim: IdempotencyClaim, quota: Quota): Promise<ClaimResult | undefined>;
  /** Over quota, the answer is not stored and the run is forgotten. Lost: another owner has taken the run over. */
  complete(ownership: Ownership, answer: StoredAnswer, quota: Quota): Promise<'stored' | 'over quota' | 'lost'>;
  stored(accountId: string): Promise<StoredAmount>;
  /** Forgets the run, so that the next request is a new one. */
  abandon(ownership: Ownership): Promise<void>;
  /** Ends the lease, so that the next request repeats the run under its id. */
  release(ownership: Ownership): Promise<void>;
  /** Renews the leases of these runs and returns the ids of those that the owner still has. */
  renew(ownerId: string, ids: readonly string[], leaseUntil: number): Promise<string[]>;
  /** Ends the leases of all other owners: for a process that knows it is alone. */
  releaseOthers(ownerId: string): Promise<void>;
  /** Removes at most `limit` records of an account that no process is running, and returns them. */
  deleteOfAccount(accountId: string, options: { now: number; limit: number }): Promise<{ id: string; runId: string }[]>;
  /** Removes at most `limit` expired records and returns them. */
  deleteExpired(now: number, limit: number): Promise<{ id: string; runId: string }[]>;
}
