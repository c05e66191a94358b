/**
 * This process among all that share its store and its counters. Work that must not run twice is owned by a process under a lease: a
 * batch, the run of an idempotency key, a file that is being read, an admission in the counters. An owner renews its leases while it
 * lives; when a lease runs out, others take over.
 */
export interface ProcessIdentity {
  /** New at every start. */
  readonly ownerId: string;
  readonly leaseMs: number;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** No other process serves from this store, so leases of other owners belong to processes that ended. */
  readonly alone: boolean;
}
