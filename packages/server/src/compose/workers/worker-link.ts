import type { EngineReport } from '@baobab/core/engine/report.ts';
import type { MetricsSnapshot } from '../../metrics/worker-metrics.ts';
import { createChannel, type Peer } from './channel.ts';

/** What a worker tells the supervisor about itself. */
export interface WorkerHandlers {
  metrics(): Promise<MetricsSnapshot>;
  reloadCatalog(): Promise<void>;
  rereadSecrets(): Promise<void>;
  engines(): Promise<EngineReport[]>;
  isReady(): Promise<boolean>;
}

/** One HTTP process of several on one port, and its link to the supervisor. */
export interface WorkerLink {
  /** From 1 on. A worker that replaces another one has its number. */
  readonly number: number;
  serve(handlers: WorkerHandlers): void;
  /** Resolves with the port when all workers are ready. */
  mayListen(): Promise<number>;
  listens(address: string): Promise<void>;
  /** The metrics of all workers, as Prometheus reads them. */
  allMetrics(): Promise<string>;
  /** Makes every worker read the catalog again. */
  reloadAll(): Promise<void>;
  /** What the operator should know while requests are still answered. */
  degraded(): string[];
}

export interface WorkerCounts {
  running: number;
  wanted: number;
}

/** For the process of a worker. */
export function linkWorker(number: number, peer: Peer): WorkerLink {
  let counts: WorkerCounts | undefined;
  let handlers: WorkerHandlers | undefined;
  const served = () => {
    if (handlers === undefined) throw new Error('the worker is starting');
    return handlers;
  };
  const channel = createChannel(peer, {
    metrics: () => served().metrics(),
    reloadCatalog: () => served().reloadCatalog(),
    rereadSecrets: () => served().rereadSecrets(),
    engines: () => served().engines(),
    isReady: () => served().isReady(),
    counts: (value) => {
      counts = value as WorkerCounts;
    },
  });
  return {
    number,
    serve(given) {
      handlers = given;
    },
    mayListen: () => channel.ask<number>('prepared', undefined, { timeoutMs: undefined }),
    listens: (address) => channel.ask('listening', address),
    allMetrics: () => channel.ask<string>('allMetrics'),
    reloadAll: () => channel.ask('reloadAll', undefined, { timeoutMs: 60_000 }),
    degraded: () =>
      counts === undefined || counts.running >= counts.wanted
        ? []
        : [`${counts.running} of ${counts.wanted} workers run, the others are starting`],
  };
}
