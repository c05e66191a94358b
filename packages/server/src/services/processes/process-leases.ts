import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';

/** A part of the service that owns work under leases of this process. */
export interface LeaseHolder {
  renewLeases(leaseUntil: number): void | Promise<void>;
  /** Ends the leases of other owners, so that their work can be taken over at once. */
  releaseOthers?(): Promise<void>;
}

export interface ProcessLeases {
  /** Call it before the first request: a process that is alone need not wait for the leases of processes that ended. */
  takeOver(): Promise<void>;
  /** Renews the leases from now on. */
  start(): void;
  stop(): void;
}

export interface ProcessLeasesDependencies {
  identity: ProcessIdentity;
  /** By name, for log lines. */
  holders: Readonly<Record<string, LeaseHolder>>;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'error'>;
}

/** Two renewals may fail before a lease is lost. */
const RENEWALS_PER_LEASE = 3;

/** Keeps the leases of this process alive. */
export function createProcessLeases({ identity, holders, clock, logger }: ProcessLeasesDependencies): ProcessLeases {
  let timer: NodeJS.Timeout | undefined;

  const text = 'failed to renew leases, trying again before they expire';
  const renewals = Object.entries(holders).map(([name, holder]) => {
    const failure = createRepeatedFailure({ logger, clock, text, facts: { leases: name } });
    return async () => {
      try {
        await holder.renewLeases(clock.now() + identity.leaseMs);
        failure.succeeded();
      } catch (error) {
        failure.failed(error);
      }
    };
  });

  return {
    async takeOver() {
      if (!identity.alone) return;
      for (const holder of Object.values(holders)) await holder.releaseOthers?.();
    },
    start() {
      timer = setInterval(() => {
        for (const renew of renewals) void renew();
      }, identity.leaseMs / RENEWALS_PER_LEASE);
      timer.unref();
    },
    stop: () => clearInterval(timer),
  };
}
