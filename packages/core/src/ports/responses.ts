import type { PendingResponse, RecordedEvents, ResponseOutcome, StoredResponse } from '../domain/response.ts';
import type { NewConversationItems } from './conversations.ts';
import type { Quota, StoredAmount } from './quotas.ts';

export interface ResponseCreation {
  quota: Quota;
  /** What to run, for a background response. */
  request?: string | undefined;
  /** Most background responses of an account that have not ended. 0: no limit. */
  maxActive?: number | undefined;
  /** The responses that it continues. They are kept at least as long as it is. */
  ancestors?: readonly string[] | undefined;
  /** The first events of its stream, if they are recorded. */
  events?: RecordedEvents | undefined;
  /** Added to its conversation in the same transaction. */
  items?: NewConversationItems | undefined;
}

export interface ResponseClaim {
  ownerId: string;
  now: number;
  leaseUntil: number;
  /** Responses to claim at most. */
  limit: number;
  /** Responses of one account that the owner may have at most. */
  maxPerAccount: number;
  /** Responses that the owner is working on. */
  holding: readonly string[];
}

export interface OwnedResponse {
  id: string;
  ownerId: string;
}

export interface ResponseEnd {
  status: ResponseOutcome;
  content: string;
  items?: NewConversationItems | undefined;
}

/** Stored responses. */
export interface ResponseRecords {
  /** False, and nothing stored, when the account would then have more than its quota, or than `maxActive`. */
  create(response: StoredResponse, creation: ResponseCreation): Promise<boolean>;
  /** Responses and conversations count together. */
  stored(accountId: string): Promise<StoredAmount>;
  /** How many background responses of an account have not ended. */
  countActive(accountId: string): Promise<number>;
  get(accountId: string, id: string): Promise<StoredResponse | undefined>;
  /** All of these that have not expired, in any order; or one that is missing, or that they are too large, without reading them. */
  getAll(
    accountId: string,
    ids: readonly string[],
    limits: { now: number; maxBytes: number },
  ): Promise<readonly StoredResponse[] | { missing: string } | 'too large'>;
  /** A response and those that it continues, oldest first: as many as fit into the limits, counted from this one. */
  chain(accountId: string, id: string, limits: { responses: number; bytes: number }): Promise<StoredResponse[]>;
  /** False when there is no such response. */
  delete(accountId: string, id: string): Promise<boolean>;
  /** Removes at most `limit` expired responses and conversations. Returns how many. */
  deleteExpired(now: number, limit: number): Promise<number>;
  /** Removes at most `limit` responses and conversations of an account. Returns how many. */
  deleteOfAccount(accountId: string, limit: number): Promise<number>;
}

/** The runs of background responses. A process claims a response before it runs it, like a batch. */
export interface BackgroundResponses {
  /** Claims responses that have not ended and have no valid lease. Accounts take turns; of each account, the oldest is first. */
  claim(claim: ResponseClaim): Promise<PendingResponse[]>;
  /** Extends the leases and returns the ids that the owner still has and that have not ended. */
  renew(ownerId: string, ids: readonly string[], leaseUntil: number): Promise<Set<string>>;
  /** Which of these have not ended. */
  active(ids: readonly string[]): Promise<Set<string>>;
  /** Gives a response back. `counts`: this attempt counts as one. */
  release(response: OwnedResponse, options: { claimableAt: number; counts: boolean }): Promise<void>;
  /** Ends the leases of all other owners: for a process that knows it is alone. */
  releaseOthers(ownerId: string): Promise<void>;
  /** False, and nothing changed, when it has ended or another process has claimed it. */
  end(response: OwnedResponse, end: ResponseEnd): Promise<boolean>;
  /** Ends a background response as cancelled. False when it has ended already. */
  cancel(accountId: string, id: string, content: string): Promise<boolean>;
}

/** The recorded streams of background responses. */
export interface ResponseStreams {
  /** Adds events to the stream of a response. False, and nothing recorded, when it has ended or another process has claimed it. */
  record(response: OwnedResponse, events: RecordedEvents): Promise<boolean>;
  /** The recorded events of a response after this sequence number, in order, and a few before it if they were recorded together. */
  events(id: string, after: number): Promise<RecordedEvents[]>;
  /** The sequence number of the last recorded event of each of these responses that has one. */
  lastEvents(ids: readonly string[]): Promise<Map<string, number>>;
}

/** Every change is one transaction: what a crash leaves is a whole response or none. */
export interface ResponseRepository extends ResponseRecords, BackgroundResponses, ResponseStreams {}
