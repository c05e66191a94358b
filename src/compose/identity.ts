import { randomUUID } from 'node:crypto';
import { acquireDataDirLock } from '../adapters/data-dir-lock.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { ProcessIdentity } from '../ports/process-identity.ts';
import { systemClock as clock } from '../runtime/clock.ts';

/** Others take over from a process that has not renewed its leases for this long. */
const LEASE_MS = 15_000;

export interface ClaimedIdentity {
  identity: ProcessIdentity;
  /** To be called last, when the store is closed. */
  release(): void;
}

/**
 * The embedded store is served by one process at a time. The lock on the data directory makes sure of it, so this process is alone:
 * it may take over all work of earlier ones, empty the temporary directory and replace the control socket.
 */
export async function claimIdentity({ dataDir }: ResolvedConfig): Promise<ClaimedIdentity> {
  const lock = await acquireDataDirLock(dataDir);
  return {
    identity: { ownerId: randomUUID(), leaseMs: LEASE_MS, startedAt: clock.now(), alone: true },
    release: lock.release,
  };
}
