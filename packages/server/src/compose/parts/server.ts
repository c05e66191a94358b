import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock as clock, steadyClock } from '@baobab/core/runtime/clock.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import { INSTALLATION } from '../../catalog/built-in.ts';
import { createServer } from '../../http/server.ts';
import { createLiveFeed } from '../../services/live/live-feed.ts';
import { createUsage } from '../../services/usage/usage.ts';
import { createAddedModels } from '../added-models.ts';
import { createConsoleBundle } from '../console-bundle.ts';
import { VERSION } from '../storage.ts';
import { createSystem } from '../system.ts';
import type { AccessParts } from './access.ts';
import type { BatchParts } from './batches.ts';
import type { Foundation } from './foundation.ts';
import type { InferenceParts, ResponseParts } from './inference.ts';
import type { ModelParts } from './models.ts';
import type { RequestParts } from './requests.ts';
import type { UpkeepParts } from './upkeep.ts';

export interface ServerOptions extends Foundation {
  access: AccessParts;
  models: ModelParts;
  inference: InferenceParts;
  responses: ResponseParts;
  requests: RequestParts;
  batches: BatchParts;
  upkeep: UpkeepParts;
  /** Reasons why the service cannot answer requests. */
  unready(): Promise<string[]>;
  isStopping(): boolean;
}

/** The HTTP server with all services. It does not listen yet. */
export function composeServer(options: ServerOptions) {
  const { config, env, worker, store, files, space, metrics, logger, certificate, ownDirectory } = options;
  const { access, models, inference, responses, requests, batches, upkeep, unready, isStopping } = options;
  return createServer({
    settings: { ...config.http, metricsToken: config.metrics.token, certificate },
    version: VERSION,
    region: config.region,
    logger,
    clock,
    metrics,
    ...access,
    ...models,
    ...inference,
    ...responses,
    ...requests,
    ...batches,
    ...upkeep,
    requests: requests.sink,
    files,
    usage: createUsage({ usage: store.usage, clock }),
    addedModels: createAddedModels({
      config,
      env,
      audit: store.audit,
      reload: worker?.reloadAll ?? models.reloadCatalog,
    }),
    feed: createLiveFeed({
      recorder: requests.recorder,
      requests: requests.requestList,
      batches: store.batches,
      engines: models.engines,
      clock,
      steadyClock,
      onError: createRepeatedFailure({ logger, clock, text: 'failed to send live events', overAfterMs: 60_000 }).failed,
    }),
    system: createSystem({ config, space, readers: inference.readerSeal, startedAt: clock.now(), unready }),
    consoleBundle: createConsoleBundle({
      sources: dirname(fileURLToPath(import.meta.resolve('@baobab/console/build.ts'))),
      domain: dirname(fileURLToPath(import.meta.resolve('@baobab/core/domain/scopes.ts'))),
      lockFile: join(INSTALLATION, 'package-lock.json'),
      cache: join(ownDirectory, 'console'),
      logger,
    }),
    temporaryDirectory: options.temporaryDirectory,
    maxInlineAudioBytes: config.audio.maxInlineBytes,
    unready,
    degraded: () => [...options.degraded(), ...(worker?.degraded() ?? [])],
    isStopping,
  });
}
