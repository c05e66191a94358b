import cluster from 'node:cluster';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineReport } from '@baobab/core/engine/report.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { freePort } from '@baobab/core/runtime/free-port.ts';
import { createKnownSecrets } from '@baobab/core/runtime/secret-scrubber.ts';
import { acquireDataDirLock } from '../../adapters/data-dir-lock.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { secretsOf } from '../../config/secrets.ts';
import { workerCount } from '../../config/workers.ts';
import { createLogger } from '../../logging/logger.ts';
import { type MetricsSnapshot, mergeMetrics } from '../../metrics/worker-metrics.ts';
import type { Service } from '../service.ts';
import { allUpstreams, prepareDataDir } from '../storage.ts';
import { openControl } from './control.ts';
import { startWorker, type WorkerProcess } from './worker-process.ts';

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
/** A worker that lived this long did not fail at its start. */
const HEALTHY_MS = 60_000;

/** Doubles with every failure in a row, so that workers that cannot start do not keep the machine busy. */
export function createRestartDelay() {
  let delayMs = FIRST_DELAY_MS;
  return {
    /** How long to wait before a worker that lived this long is started again. */
    next(livedMs: number): number {
      if (livedMs >= HEALTHY_MS) delayMs = FIRST_DELAY_MS;
      const current = delayMs;
      delayMs = Math.min(delayMs * 2, LONGEST_DELAY_MS);
      return current;
    },
  };
}

const sum = <T>(items: readonly T[], value: (item: T) => number): number =>
  items.reduce((total, item) => total + value(item), 0);

/** One report for each model, with the requests of all workers. */
function mergeReports(reports: readonly (readonly EngineReport[])[]): EngineReport[] {
  const byModel = Map.groupBy(reports.flat(), ({ model }) => model);
  return [...byModel.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const upstreams = first.upstreams.map((upstream) => {
      const everywhere = same.flatMap((report) =>
        report.upstreams.filter(({ address }) => address === upstream.address),
      );
      return { ...upstream, inFlight: sum(everywhere, ({ inFlight }) => inFlight) };
    });
    const inFlight = sum(same, (report) => report.inFlight);
    return [{ ...first, inFlight, queueDepth: sum(same, (report) => report.queueDepth), upstreams }];
  });
}

const METRICS_TIMEOUT_MS = 5_000;
/** A role gets its credentials over the network. */
const REREAD_TIMEOUT_MS = 60_000;

/** A worker could not start. It has printed why. */
export class WorkerStartError extends Error {
  override readonly name = 'WorkerStartError';
}

/**
 * Runs several HTTP processes on one port. Each has a socket of its own, and the kernel spreads connections over them. This process
 * holds no requests and no state of clients, so it has little to fail with. `onServing` is called when all listen, before the log says so.
 */
export async function startSupervisor(config: ResolvedConfig, onServing: (address: string) => void): Promise<Service> {
  const secrets = createKnownSecrets(secretsOf({ ...config, upstreams: allUpstreams(config) }));
  const logger = createLogger({ ...config.log, scrub: secrets.scrub });
  await prepareDataDir(config);
  const lock = await acquireDataDirLock(config.dataDir);
  cluster.setupPrimary({ exec: process.argv[1], args: process.argv.slice(2) });
  // The kernel spreads connections over all sockets that share a port, those of another server of this user too. So it must be free.
  const port = await freePort(config).catch((error: unknown) => {
    lock.release();
    throw error;
  });
  const workers = createWorkers(workerCount(config), { port, logger });
  try {
    const address = await workers.start();
    const control = await openControl(config, workers);
    onServing(address);
    workers.logStart();
    return {
      address,
      rereadSecrets: workers.rereadSecrets,
      async close() {
        await control.withdraw();
        await workers.stop();
        await control.server.close();
        lock.release();
      },
    };
  } catch (error) {
    await workers.stop();
    lock.release();
    throw error;
  }
}

function createWorkers(wanted: number, { port, logger }: { port: number; logger: Logger }) {
  /** By number; those that have not ended. */
  const alive = new Map<number, WorkerProcess>();
  const listening = new Set<WorkerProcess>();
  const stopping = new AbortController();
  const ends = new Set<Promise<void>>();
  let isStarted = false;

  const askAll = <T>(name: string, timeoutMs: number): Promise<T>[] =>
    [...listening].map(({ channel }) => channel.ask<T>(name, undefined, { timeoutMs }));

  /** Leaves out a worker that does not answer. */
  async function answers<T>(name: string): Promise<T[]> {
    const settled = await Promise.allSettled(askAll<T>(name, METRICS_TIMEOUT_MS));
    return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  async function reloadCatalog(): Promise<void> {
    await Promise.all(askAll('reloadCatalog', 60_000));
  }

  function tellCounts(): void {
    const counts = { running: listening.size, wanted };
    for (const { channel } of listening) channel.ask('counts', counts).catch(() => {});
  }

  const handlers = {
    allMetrics: async () => mergeMetrics(await answers<MetricsSnapshot>('metrics')),
    reloadAll: reloadCatalog,
  };

  const logListens = (number: number, { pid }: WorkerProcess) => logger.info({ worker: number, pid }, 'worker listens');

  function launch(number: number): WorkerProcess {
    const worker = startWorker(number, handlers);
    alive.set(number, worker);
    worker.listening.then(
      () => {
        listening.add(worker);
        tellCounts();
        if (isStarted) logListens(number, worker);
      },
      () => {},
    );
    return worker;
  }

  /** Starts a worker again whenever it ends. */
  async function keepAlive(number: number, first: WorkerProcess): Promise<void> {
    const restart = createRestartDelay();
    for (let worker = first; ; ) {
      const startedAt = performance.now();
      const { code, signal } = await worker.exited;
      alive.delete(number);
      listening.delete(worker);
      if (stopping.signal.aborted || !isStarted) return;
      const restartMs = restart.next(performance.now() - startedAt);
      logger.error({ worker: number, pid: worker.pid, code, signal, restartMs }, 'worker ended, starting another one');
      tellCounts();
      await delay(restartMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
      worker = launch(number);
      worker.mayListen(port);
    }
  }

  const begin = (number: number): WorkerProcess => {
    const worker = launch(number);
    const end = keepAlive(number, worker).finally(() => ends.delete(end));
    ends.add(end);
    return worker;
  };

  return {
    /** Opens the port when all workers are ready. Returns its address. */
    async start(): Promise<string> {
      try {
        // One first: it creates the tables and the first key.
        const first = begin(1);
        await first.prepared;
        const all = [first, ...Array.from({ length: wanted - 1 }, (_, index) => begin(index + 2))];
        await Promise.all(all.map(({ prepared }) => prepared));
        for (const worker of all) worker.mayListen(port);
        const [address] = await Promise.all(all.map((worker) => worker.listening));
        isStarted = true;
        return address as string;
      } catch (error) {
        throw new WorkerStartError((error as Error).message, { cause: error });
      }
    },
    logStart(): void {
      for (const [number, worker] of alive) if (listening.has(worker)) logListens(number, worker);
    },
    async rereadSecrets(): Promise<void> {
      await Promise.allSettled(askAll('rereadSecrets', REREAD_TIMEOUT_MS));
    },
    engines: async () => mergeReports(await answers<EngineReport[]>('engines')),
    isReady: async () => (await answers<boolean>('isReady')).includes(true),
    reloadCatalog,
    /** Each worker lets its requests end. */
    async stop(): Promise<void> {
      stopping.abort();
      for (const worker of alive.values()) worker.stop();
      await Promise.all(ends);
    },
  };
}
