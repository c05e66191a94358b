import { setTimeout as delay } from 'node:timers/promises';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { steadyClock as clock } from '@baobab/core/runtime/clock.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { ControlServer } from '../control/server.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { createServer } from '../http/server.ts';
import type { InferenceService } from '../inference/pipeline.ts';
import { createReadinessMetrics } from '../metrics/readiness-metrics.ts';
import type { IssuedKey, KeysService } from '../services/access/keys.ts';
import { serverOrigin } from '../services/audit/origins.ts';
import type { BatchRunner } from '../services/batches/runner.ts';
import { createReadiness } from '../services/operators/servers.ts';
import type { ResponseRunner } from '../services/responses/runner.ts';
import type { BackgroundJobs } from './background-jobs.ts';
import { composeAccess } from './parts/access.ts';
import { composeBatches } from './parts/batches.ts';
import { type Foundation, type FoundationOptions, openFoundation, whenThere } from './parts/foundation.ts';
import { composeInference, composeResponses } from './parts/inference.ts';
import { composeModels } from './parts/models.ts';
import { composeRequests } from './parts/requests.ts';
import { composeServer } from './parts/server.ts';
import { composeUpkeep } from './parts/upkeep.ts';
import { openControl } from './workers/control.ts';

/** `first_key` sets only the first key of an empty store. Later it has no effect, so its value may not be a key at all. */
export async function reportUnusedKey(
  secret: string | undefined,
  { keys, logger }: { keys: Pick<KeysService, 'findBySecret'>; logger: Pick<Logger, 'info' | 'warn'> },
): Promise<void> {
  if (secret === undefined) return;
  const key = await keys.findBySecret(secret);
  if (key === undefined) {
    logger.warn(
      { setting: 'first_key' },
      "first_key is not used: this store has keys already, and none of them is this one. 'baobab keys create' makes another key",
    );
  } else if (key.revokedAt !== null) {
    logger.warn(
      { setting: 'first_key', key: key.id },
      'first_key is not used, and the key with this value was revoked',
    );
  } else {
    logger.info({ setting: 'first_key', key: key.id }, 'first_key has no effect: the store has this key already');
  }
}

/** A request that does not end when it is aborted must not keep the server from stopping. */
const SETTLE_MS = 5_000;
/** After the drain timeout. Supervisors kill a process that takes longer, without a word in its log. */
const STOP_GRACE_MS = 10_000;

/** Something hangs. What was acknowledged is durable, so the process may end. */
export class StopTimeoutError extends Error {
  override readonly name = 'StopTimeoutError';
}

async function within(ms: number, stopping: Promise<void>): Promise<void> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new StopTimeoutError(`failed to stop within ${ms / 1000} s, ending the process`));
  }, ms);
  await Promise.race([stopping, late.promise]).finally(() => clearTimeout(timer));
}
/** For aborted requests to send their error. */
const FINAL_ERROR_GRACE_MS = 1_000;

interface ShutdownDependencies {
  server: Awaited<ReturnType<typeof createServer>>;
  /** Undefined in a worker: the supervisor has it. */
  control: ControlServer | undefined;
  runner: BatchRunner;
  responseRunner: ResponseRunner;
  inference: InferenceService;
  fleet: Fleet;
  background: BackgroundJobs;
  drainTimeoutMs: number;
  logger: Logger;
}

/** Stops taking requests, lets running ones end until the deadline and aborts the others. Everything that ran is billed afterwards. */
async function shutDown(dependencies: ShutdownDependencies): Promise<void> {
  const { server, control, runner, responseRunner, inference, fleet, background, drainTimeoutMs, logger } =
    dependencies;
  const deadlineAt = clock.now() + drainTimeoutMs;
  logger.info({ drainTimeoutMs, running: server.running.size }, 'stopping, waiting for running requests');

  async function settleRequests(): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, SETTLE_MS);
    await Promise.race([inference.idle(), late.promise]);
    clearTimeout(timer);
  }

  let disconnect: NodeJS.Timeout | undefined;
  const deadline = setTimeout(() => {
    server.running.stopAll(errors.shuttingDown());
    disconnect = setTimeout(() => server.server.closeAllConnections(), FINAL_ERROR_GRACE_MS);
  }, drainTimeoutMs);
  // Batches stop first, so that no line takes time from the requests that are left.
  const workStopped = [runner.stop(drainTimeoutMs), responseRunner.stop(drainTimeoutMs)];
  await Promise.all([...workStopped, server.close()]);
  clearTimeout(deadline);
  clearTimeout(disconnect);
  await control?.close();
  background.stopTimers();
  // Aborted requests are billed too. A hung engine drops its requests on close.
  await settleRequests();
  await fleet.close(Math.max(0, deadlineAt - clock.now()));
  await settleRequests();
  await background.stop();
}

export interface Service {
  address: string;
  /** Those in files, and the credentials of S3. Never rejects: what cannot be read is logged, and the old one stays in use. */
  rereadSecrets(): Promise<void>;
  /** Stops taking requests, lets running ones end until the deadline, then closes everything. Rejects with a `StopTimeoutError`. */
  close(): Promise<void>;
}

export interface Serving {
  address: string;
  /** The key of the very first start. It can be shown only now. */
  firstKey: IssuedKey | undefined;
}

export interface StartOptions extends FoundationOptions {
  /** Called when requests are answered, before the log says so. */
  onServing?: ((serving: Serving) => void) | undefined;
}

/** Reasons why the service cannot answer requests. */
async function unreadyReasons({ store, space }: Pick<Foundation, 'store' | 'space'>): Promise<string[]> {
  const reasons: string[] = [];
  const problem = await store.health.problem();
  if (problem !== undefined) reasons.push(problem);
  const { isLow, freeBytes, reserveBytes } = await space.status();
  if (isLow) reasons.push(`the disk has ${freeBytes} bytes free, less than the reserve of ${reserveBytes}`);
  return reasons;
}

/** Builds every part in the order in which they need each other, then opens the port. */
export async function startService(config: ResolvedConfig, options: StartOptions): Promise<Service> {
  const { onServing, worker } = options;
  const foundation = await openFoundation(config, options);
  const { metrics, logger } = foundation;
  const models = await composeModels(foundation);
  const access = composeAccess({ ...foundation, ...models });
  const inference = composeInference({ ...foundation, ...models });
  const responses = composeResponses({ ...foundation, chat: inference.chat });
  const requests = composeRequests(foundation);
  requests.recorder.subscribe(({ model, version, attempts, promptTokens, completionTokens }) => {
    if (attempts.length > 0) models.rates.add(`${model}@${version}`, { input: promptTokens, output: completionTokens });
  });
  const batches = composeBatches({ ...foundation, models, inference, responses, requests });
  const { runner } = batches;
  let phase: 'starting' | 'serving' | 'stopping' = 'starting';
  const unready = async () => (phase === 'serving' ? unreadyReasons(foundation) : [`the server is ${phase}`]);
  const degraded = () => [...foundation.degraded(), ...(worker?.degraded() ?? [])];
  const readiness = createReadiness({ unready, degraded, clock: foundation.clock });
  createReadinessMetrics(metrics.registry, {
    isReady: async () => (await unready()).length === 0,
    storeProblem: () => foundation.store.health.problem(),
  });
  const upkeep = composeUpkeep({ ...foundation, access, models, inference, responses, requests, runner, readiness });

  const server = await composeServer({
    ...foundation,
    ...{ access, models, inference, responses, requests, batches, upkeep },
    unready,
    readiness,
    isStopping: () => phase === 'stopping',
  });

  await whenThere(upkeep.background.prepare, logger);
  const isReady = async () => (await readiness()).readiness !== 'not ready';
  const handlers = { engines: models.fleet.list, isReady, reloadCatalog: models.reloadCatalog };
  const rereadSecrets = () => foundation.secretFiles.rereadAll();
  worker?.serve({ ...handlers, rereadSecrets, metrics: () => metrics.registry.getMetricsAsJSON() });
  const port = worker === undefined ? config.port : await worker.mayListen();
  const address = await server.listen({ host: config.host, port, ...(worker && { reusePort: true }) });
  const control = worker === undefined ? await openControl(config, handlers) : undefined;
  // Only now: the port may have been taken since it was checked, and a key that is not shown is lost.
  const firstKey = await whenThere(() => access.keys.bootstrap(config.firstKey, serverOrigin()), logger);
  phase = 'serving';
  onServing?.({ address, firstKey });
  await worker?.listens(address);
  // The supervisor says it of its workers.
  if (worker === undefined) logger.info(`Server listening at ${address}`);
  if (firstKey === undefined) await reportUnusedKey(config.firstKey, { keys: access.keys, logger });
  upkeep.background.start();
  models.prepare();

  return {
    address,
    rereadSecrets,
    async close() {
      const { drainDelayMs, drainTimeoutMs } = config.http;
      phase = 'stopping';
      if (drainDelayMs > 0) logger.info({ drainDelayMs }, 'stopping, waiting for load balancers to notice');
      await delay(drainDelayMs);
      const stop = async () => {
        await control?.withdraw();
        await shutDown({
          server,
          control: control?.server,
          runner,
          responseRunner: responses.responseRunner,
          inference: inference.inference,
          fleet: models.fleet,
          background: upkeep.background,
          drainTimeoutMs,
          logger,
        });
        await models.closeWeights();
        await foundation.close();
      };
      await within(drainTimeoutMs + STOP_GRACE_MS, stop()).catch((error: unknown) => {
        logger.error({}, (error as Error).message);
        throw error;
      });
    },
  };
}
