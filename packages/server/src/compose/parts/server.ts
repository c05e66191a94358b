import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { createRepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import { INSTALLATION } from '../../catalog/built-in.ts';
import type { ResolvedConfig } from '../../config/load.ts';
import { maskedConfig } from '../../config/secrets.ts';
import { createServer } from '../../http/server.ts';
import { createLiveFeed } from '../../services/live/live-feed.ts';
import type { Readiness } from '../../services/operators/servers.ts';
import type { ReaderSeal, SystemService } from '../../services/operators/system.ts';
import { createUsage } from '../../services/usage/usage.ts';
import { createAddedModels } from '../added-models.ts';
import { createConsoleBundle } from '../console-bundle.ts';
import { createStaticFiles } from '../static-files.ts';
import { VERSION } from '../version.ts';
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
  readiness(): Promise<Readiness>;
  isStopping(): boolean;
}

/** The HTTP server with all services. It does not listen yet. */
export function composeServer(options: ServerOptions) {
  const { config, env, worker, store, clock, files, space, metrics, logger, certificate, ownDirectory } = options;
  const { access, models, inference, responses, requests, batches, upkeep, unready, readiness, isStopping } = options;
  const { token, tokenFile } = config.metrics;
  const metricsToken = options.secretFiles.hold({ key: 'metrics.token', value: token, file: tokenFile });
  return createServer({
    settings: { ...config.http, publicUrl: config.publicUrl, metricsToken, certificate },
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
      hfToken: options.hfToken,
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
      folder: dirname(fileURLToPath(import.meta.resolve('@baobab/console/package.json'))),
      domain: dirname(fileURLToPath(import.meta.resolve('@baobab/core/domain/scopes.ts'))),
      lockFile: join(INSTALLATION, 'package-lock.json'),
      cache: join(ownDirectory, 'console'),
      logger,
    }),
    guide: createStaticFiles(join(INSTALLATION, 'guide')),
    temporaryDirectory: options.temporaryDirectory,
    maxInlineAudioBytes: config.audio.maxInlineBytes,
    readiness,
    isStopping,
  });
}

interface SystemDependencies {
  config: ResolvedConfig;
  space: DiskSpace;
  readers: ReaderSeal;
  startedAt: number;
  unready(): Promise<string[]>;
}

function createSystem({ config, space, readers, startedAt, unready }: SystemDependencies): SystemService {
  return {
    async describe() {
      const [disk, reasons] = await Promise.all([space.status(), unready()]);
      const limit = process.constrainedMemory();
      return {
        version: VERSION,
        region: config.region,
        startedAt,
        reasons,
        runtime: {
          node: process.version,
          platform: process.platform,
          arch: process.arch,
          cpus: availableParallelism(),
          memoryBytes: limit > 0 && limit < totalmem() ? limit : totalmem(),
          freeMemoryBytes: freemem(),
          processMemoryBytes: process.memoryUsage.rss(),
        },
        storeKind: config.store === undefined ? 'sqlite' : 'postgres',
        readers,
        disk,
        configuration: maskedConfig(config),
      };
    },
  };
}
