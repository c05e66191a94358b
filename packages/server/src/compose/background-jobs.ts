import { HOUR_MS } from '@baobab/core/domain/time/durations.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import type { Store } from '../adapters/store.ts';
import type { AccountErasure } from '../services/access/account-erasure.ts';
import type { AuthenticationService } from '../services/access/authentication.ts';
import type { SessionsService } from '../services/access/sessions.ts';
import type { AuditService } from '../services/audit/audit.ts';
import type { BatchRunner } from '../services/batches/runner.ts';
import type { CatalogService } from '../services/catalog/catalog.ts';
import type { FileRetentionSchedule } from '../services/files/file-retention-schedule.ts';
import type { Idempotency } from '../services/idempotency/idempotency.ts';
import type { ServersService } from '../services/operators/servers.ts';
import type { ProcessLeases } from '../services/processes/process-leases.ts';
import type { StoreClock } from '../services/processes/store-clock.ts';
import type { RequestRecorder } from '../services/requests/request-recorder.ts';
import type { RequestRetention } from '../services/requests/request-retention.ts';
import type { RequestTextsService } from '../services/requests/request-texts.ts';
import type { ResponsesService } from '../services/responses/responses.ts';
import type { ResponseRunner } from '../services/responses/runner.ts';

/** Changes that another process makes to keys or models are seen after this time at most. */
const REFRESH_MS = 250;
const FLUSH_USES_MS = 5_000;
const SWEEP_MS = 60_000;
const REQUEST_SWEEP_MS = 600_000;
const AUDIT_SWEEP_MS = HOUR_MS;
const MONTHS_MS = HOUR_MS;
/** A table that grows tenfold meanwhile is one of few rows. */
const STATISTICS_MS = 600_000;
const CLOCK_MS = 5_000;
const HEARTBEAT_MS = 5_000;

export interface BackgroundJobsDependencies {
  authentication: AuthenticationService;
  sessions: Pick<SessionsService, 'removeExpired'>;
  catalog: CatalogService;
  idempotency: Idempotency;
  leases: ProcessLeases;
  runner: BatchRunner;
  requests: {
    retention: Pick<RequestRetention, 'sweep'>;
    recorder: Pick<RequestRecorder, 'flush'>;
    requestTexts: Pick<RequestTextsService, 'flush'>;
  };
  responses: Pick<ResponsesService, 'sweep'>;
  audit: Pick<AuditService, 'sweep'>;
  responseRunner: ResponseRunner;
  fileRetention: FileRetentionSchedule;
  accountErasure: AccountErasure;
  /** See `Store`. */
  prepareMonths(now: number): Promise<void>;
  /** See `Store`. */
  refreshStatistics(): Promise<void>;
  clock: StoreClock;
  servers: ServersService;
  /** See `createTurns`. */
  isMyTurn: IsMyTurn;
  logger: Logger;
}

export interface BackgroundJobs {
  /** To be awaited before the first request: reads keys and models, and takes over from earlier processes. */
  prepare(): Promise<void>;
  start(): void;
  /** Stops what runs on a timer. Batches are stopped earlier, and the rest when no request runs any more. */
  stopTimers(): void;
  stop(): Promise<void>;
}

/** Work that no request asks for. */
export function createBackgroundJobs(dependencies: BackgroundJobsDependencies): BackgroundJobs {
  const {
    authentication,
    sessions,
    requests,
    catalog,
    idempotency,
    leases,
    runner,
    responses,
    audit,
    responseRunner,
    fileRetention,
    accountErasure,
    prepareMonths,
    refreshStatistics,
    clock,
    servers,
    isMyTurn,
    logger,
  } = dependencies;
  const timers: NodeJS.Timeout[] = [];

  /** Leaves out a turn while the last one is still running. */
  const every = (ms: number, job: () => Promise<unknown>, text: string) => {
    const failure = createRepeatedFailure({ logger, clock: steadyClock, text });
    let isRunning = false;
    const turn = async () => {
      if (isRunning) return;
      isRunning = true;
      await job().then(failure.succeeded, failure.failed);
      isRunning = false;
    };
    timers.push(setInterval(() => void turn(), ms));
    return turn;
  };

  /** For what one of all servers on the store does. */
  const everyInTurn = (ms: number, name: string, job: () => Promise<unknown>, text: string) =>
    every(ms, async () => (await isMyTurn(name, ms)) && job(), text);

  async function refresh(): Promise<void> {
    await authentication.refresh();
    await catalog.refresh();
  }

  async function sweepIdempotency(): Promise<void> {
    while (await idempotency.sweep());
  }

  async function sweepResponses(): Promise<void> {
    while (await responses.sweep());
  }

  return {
    async prepare() {
      await leases.takeOver();
      await refresh();
    },
    start() {
      every(REFRESH_MS, refresh, 'failed to poll the store for changes');
      const checkClock = async () => {
        await clock.sync();
        const problem = clock.problem();
        if (problem !== undefined) throw new Error(problem);
      };
      void every(CLOCK_MS, checkClock, 'failed to confirm that the clocks of this machine and the database agree')();
      void every(HEARTBEAT_MS, servers.beat, 'failed to tell other servers how this one is')();
      every(FLUSH_USES_MS, authentication.flushUses, 'failed to write the times of last use of keys');
      everyInTurn(SWEEP_MS, 'idempotency keys', sweepIdempotency, 'failed to remove expired idempotency keys');
      everyInTurn(SWEEP_MS, 'sessions', sessions.removeExpired, 'failed to remove expired sessions');
      everyInTurn(REQUEST_SWEEP_MS, 'requests', requests.retention.sweep, 'failed to remove old requests');
      everyInTurn(AUDIT_SWEEP_MS, 'audit log', audit.sweep, 'failed to remove old entries of the audit log');
      everyInTurn(MONTHS_MS, 'months', () => prepareMonths(clock.now()), 'failed to create partitions of the ledger');
      void every(STATISTICS_MS, refreshStatistics, 'failed to refresh the statistics of the database')();
      fileRetention.start();
      accountErasure.start();
      leases.start();
      everyInTurn(SWEEP_MS, 'responses', sweepResponses, 'failed to remove expired responses');
      runner.start();
      responseRunner.start();
    },
    stopTimers() {
      for (const timer of timers) clearInterval(timer);
    },
    async stop() {
      await accountErasure.stop();
      await fileRetention.stop();
      leases.stop();
      await requests.requestTexts.flush();
      // Else the list would call it gone for an hour.
      await servers.leave().catch((error) => logger.error({ err: error }, 'failed to leave the list of servers'));
      // On a full disk, for example. Everything else must still be closed.
      await authentication
        .flushUses()
        .catch((error) => logger.error({ err: error }, 'failed to write the times of last use of keys'));
      // Last: a request that was aborted may end at any moment.
      await requests.recorder.flush();
    },
  };
}

/** Whether this process does a job that only one of all processes on the store does in each interval. */
export type IsMyTurn = (job: string, everyMs: number) => Promise<boolean>;

/** The timer of a process fires some milliseconds early or late. Without this share of the interval it would often miss its own next turn. */
const EARLY = 0.1;

/** A process that is alone has every turn. */
export const createTurns = (
  { jobTurns }: Pick<Store, 'jobTurns'>,
  { alone }: Pick<ProcessIdentity, 'alone'>,
  clock: Clock,
): IsMyTurn =>
  alone
    ? async () => true
    : (job, everyMs) => jobTurns.take(job, { now: clock.now(), everyMs: Math.floor(everyMs * (1 - EARLY)) });
