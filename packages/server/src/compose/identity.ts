import { randomUUID } from 'node:crypto';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { systemClock as clock } from '@baobab/core/runtime/clock.ts';
import { acquireDataDirLock } from '../adapters/data-dir-lock.ts';
import type { ResolvedConfig } from '../config/load.ts';

/** Others take over from a process that has not renewed its leases for this long. */
const LEASE_MS = 15_000;

export interface ClaimedIdentity {
  identity: ProcessIdentity;
  /** Call it last, when the store is closed. */
  release(): void;
}

/**
 * A data directory is served by one process at a time. The lock makes sure of it, so this process may empty the temporary directory and
 * replace the control socket. If the store is in there too, this process is alone and takes over all work of earlier ones. A store
 * elsewhere may have other processes: their work is taken over when their leases end.
 */
export async function claimIdentity({ dataDir, store }: ResolvedConfig): Promise<ClaimedIdentity> {
  const lock = await acquireDataDirLock(dataDir);
  return {
    identity: { ownerId: randomUUID(), leaseMs: LEASE_MS, startedAt: clock.now(), alone: store === undefined },
    release: lock.release,
  };
}
