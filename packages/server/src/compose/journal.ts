import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { bucketIndex } from '@baobab/core/domain/usage-window.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Counters } from '@baobab/core/ports/counters.ts';
import type { LedgerRow } from '@baobab/core/ports/ledger.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import type { RedisCounters } from '../adapters/counters/redis/counters.ts';
import { acquireDataDirLock } from '../adapters/data-dir-lock.ts';
import { journalFolders, type MovedRows, moveLeftRows, withJournal } from '../adapters/journal/standby-journal.ts';
import type { Store } from '../adapters/store.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { workerCount } from '../config/workers.ts';
import { chargedBudgets } from '../inference/limits/ceilings.ts';
import { createJournalMetrics } from '../metrics/journal-metrics.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { openConfiguredStore, workerFolder } from './storage.ts';
import type { WorkerLink } from './workers/worker-link.ts';

export interface RereadDependencies {
  store: Pick<Store, 'keys'>;
  counters: Pick<Counters, 'reread'>;
  clock: Clock;
}

/** The ledger has got rows late: whoever has read it for a budget meanwhile has read too little. */
export async function rereadBudgets(
  rows: readonly LedgerRow[],
  { store, counters, clock }: RereadDependencies,
): Promise<void> {
  const originals = new Map<string, string>();
  const budgets = new Set<string>();
  for (const { accountId, keyId, time } of rows) {
    const originalId = originals.get(keyId) ?? (await store.keys.get(keyId))?.originalId ?? keyId;
    originals.set(keyId, originalId);
    const spender = { account: { id: accountId }, key: { originalId } };
    for (const budget of chargedBudgets(spender, bucketIndex('month', time))) budgets.add(budget);
  }
  await counters.reread([...budgets], clock.now());
}

export interface JournalDependencies extends RereadDependencies {
  config: ResolvedConfig;
  worker: WorkerLink | undefined;
  ownDirectory: string;
  store: Store;
  metrics: Metrics;
  logger: Logger;
}

export interface JournalParts {
  store: Store;
  /** What the operator should know while requests are still answered. */
  degraded(): string[];
}

/** Folders of processes that are not there any more, such as workers beyond their number today. */
async function abandonedFolders({ config, worker, ownDirectory }: JournalDependencies): Promise<string[]> {
  // The first of several workers looks for all of them.
  if (worker !== undefined && worker.number > 1) return [];
  const running = worker === undefined ? 0 : workerCount(config);
  const used = Array.from({ length: running }, (_, index) => workerFolder(config, index + 1));
  return (await journalFolders(config.dataDir)).filter((folder) => folder !== ownDirectory && !used.includes(folder));
}

/**
 * Rows that waited when a process ended move to the store now. With `store_journal`, those of requests that run when PostgreSQL goes away
 * wait in the folder of this process.
 */
export async function openJournal(dependencies: JournalDependencies): Promise<JournalParts> {
  const { config, ownDirectory, store, clock, metrics, logger } = dependencies;
  if (config.store === undefined) return { store, degraded: () => [] };
  const away = createRepeatedFailure({
    logger,
    clock,
    text: 'PostgreSQL takes no ledger rows, keeping them in the journal of this server',
  });
  const onMoved = async (rows: readonly LedgerRow[]) => {
    await rereadBudgets(rows, dependencies);
    away.succeeded();
    logger.info({ rows: rows.length }, 'moved ledger rows from the journal to PostgreSQL');
  };
  const left = await abandonedFolders(dependencies);
  for (const folder of config.storeJournal ? left : [...left, ownDirectory]) {
    await moveLeftRows({ folder, store, onMoved });
  }
  if (!config.storeJournal) return { store, degraded: () => [] };
  const journaled = await withJournal({ folder: ownDirectory, store, onMoved, onError: away.failed });
  createJournalMetrics(metrics.registry, journaled.waiting);
  return {
    store: journaled.store,
    degraded() {
      const { rows } = journaled.waiting();
      return rows === 0 ? [] : [`${rows} ledger rows wait in the journal of this server for PostgreSQL`];
    },
  };
}

const COMMAND_LEASE_MS = 15_000;

/** Those that servers share. Undefined: each has its own, which no command can reach. */
async function openCommandCounters({ counters: url }: ResolvedConfig): Promise<RedisCounters | undefined> {
  if (url === undefined) return undefined;
  const { openRedisCounters } = await import('../adapters/counters/redis/counters.ts');
  return openRedisCounters({ url, owner: randomUUID(), leaseMs: COMMAND_LEASE_MS, now: systemClock.now });
}

/** Moves the rows that the processes of a data directory have left in their journals. No server may run on it. */
export async function replayJournal(
  config: ResolvedConfig,
  folder: string,
  log: Pick<Logger, 'warn'>,
): Promise<MovedRows> {
  const found = await stat(folder).catch((cause: unknown) => {
    throw new StoreUnavailableError(`${folder} cannot be read: ${systemReason(cause)}. Name a data directory.`, {
      cause,
    });
  });
  if (!found.isDirectory()) throw new StoreUnavailableError(`${folder} is a file. Name a data directory.`);
  const { release } = await acquireDataDirLock(folder).catch((cause: unknown) => {
    if (cause instanceof StoreUnavailableError) throw cause;
    throw new StoreUnavailableError(
      `${folder} cannot be locked: ${systemReason(cause)}. Name one that is writable, such as a copy.`,
      { cause },
    );
  });
  await using opened = new AsyncDisposableStack();
  opened.defer(release);
  const store = await openConfiguredStore(config, { log });
  opened.defer(() => store.close());
  const counters = await openCommandCounters(config);
  opened.defer(() => counters?.close());
  const onMoved = async (rows: readonly LedgerRow[]) => {
    if (counters !== undefined) await rereadBudgets(rows, { store, counters, clock: systemClock });
  };
  const sums = { rows: 0, added: 0 };
  for (const journal of await journalFolders(folder)) {
    const { rows, added } = await moveLeftRows({ folder: journal, store, onMoved });
    sums.rows += rows;
    sums.added += added;
  }
  return sums;
}
