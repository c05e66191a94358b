import { setTimeout as delay } from 'node:timers/promises';
import type { ResolvedConfig } from '../config/load.ts';
import type { IssuedKey } from '../services/access/keys.ts';
import { serverOrigin } from '../services/audit/origins.ts';
import { reportUnusedKey } from './configured-key.ts';
import { composeAccess } from './parts/access.ts';
import { composeBatches } from './parts/batches.ts';
import { type Foundation, type FoundationOptions, openFoundation } from './parts/foundation.ts';
import { composeInference, composeResponses } from './parts/inference.ts';
import { composeModels } from './parts/models.ts';
import { composeRequests } from './parts/requests.ts';
import { composeServer } from './parts/server.ts';
import { composeUpkeep } from './parts/upkeep.ts';
import { shutDown } from './shutdown.ts';
import { openControl } from './workers/control.ts';

export interface Service {
  address: string;
  /** Stops taking requests, lets running ones end until the deadline, then closes everything. */
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
  await store.revisions.current().catch(() => reasons.push('the database does not answer'));
  const { isLow, freeBytes, reserveBytes } = await space.status();
  if (isLow) reasons.push(`the disk has ${freeBytes} bytes free, less than the reserve of ${reserveBytes}`);
  return reasons;
}

/** Builds every part in the order in which they need each other, then opens the port. */
export async function startService(config: ResolvedConfig, options: StartOptions): Promise<Service> {
  const { onServing, worker } = options;
  const foundation = await openFoundation(config, options);
  const { metrics, logger } = foundation;
  const access = composeAccess(foundation);
  const models = await composeModels(foundation);
  const inference = composeInference({ ...foundation, ...models });
  const responses = composeResponses({ ...foundation, chat: inference.chat });
  const requests = composeRequests(foundation);
  requests.recorder.subscribe(({ model, version, attempts, promptTokens, completionTokens }) => {
    if (attempts.length > 0) models.rates.add(`${model}@${version}`, { input: promptTokens, output: completionTokens });
  });
  const batches = composeBatches({ ...foundation, models, inference, responses, requests });
  const { runner } = batches;
  const upkeep = composeUpkeep({ ...foundation, access, models, inference, responses, requests, runner });

  let phase: 'starting' | 'serving' | 'stopping' = 'starting';
  const server = await composeServer({
    ...foundation,
    ...{ access, models, inference, responses, requests, batches, upkeep },
    unready: async () => (phase === 'serving' ? unreadyReasons(foundation) : [`the server is ${phase}`]),
    isStopping: () => phase === 'stopping',
  });

  await upkeep.background.prepare();
  const handlers = { engines: models.fleet.list, reloadCatalog: models.reloadCatalog };
  worker?.serve({ ...handlers, metrics: () => metrics.registry.getMetricsAsJSON() });
  const port = worker === undefined ? config.port : await worker.mayListen();
  const address = await server.listen({ host: config.host, port, ...(worker && { reusePort: true }) });
  const control = worker === undefined ? await openControl(config, handlers) : undefined;
  // Only now: the port may have been taken since it was checked, and a key that is not shown is lost.
  const firstKey = await access.keys.bootstrap(config.apiKey, serverOrigin());
  phase = 'serving';
  onServing?.({ address, firstKey });
  await worker?.listens(address);
  // The supervisor says it of its workers.
  if (worker === undefined) logger.info(`Server listening at ${address}`);
  if (firstKey === undefined) await reportUnusedKey(config.apiKey, { keys: access.keys, logger });
  upkeep.background.start();
  models.prepare();

  return {
    address,
    async close() {
      const { drainDelayMs, drainTimeoutMs } = config.http;
      phase = 'stopping';
      if (drainDelayMs > 0) logger.info({ drainDelayMs }, 'stopping, waiting for load balancers to notice');
      await delay(drainDelayMs);
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
    },
  };
}
