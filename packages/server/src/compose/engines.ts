import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { steadyClock as clock } from '@baobab/core/runtime/clock.ts';
import type { Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { drivers, NEEDS_ENGINES } from '../drivers.ts';
import { createFleet, type Fleet, type UpstreamMetrics } from '../fleet/fleet.ts';
import { createEngineRegistry, type EngineMetrics, type Model } from '../fleet/registry.ts';
import type { WeightsStore } from '../models/store.ts';
import { machineFile } from './accelerators.ts';
import { allUpstreams } from './storage.ts';
import { type Environment, storedModel } from './weights.ts';

export interface EngineOptions {
  config: ResolvedConfig;
  entries: readonly ModelEntry[];
  weights: WeightsStore;
  metrics: EngineMetrics;
  upstreamMetrics: UpstreamMetrics;
  logger: Logger;
  /** Hides the secrets of the server. */
  scrub: Scrub;
  env: Environment;
}

/** The models to load at start. One without weights here is logged as a warning. */
function warmModels({ config, entries, logger }: EngineOptions): Model[] {
  return config.models.warm.flatMap((name) => {
    const reference = parseReference(name);
    const entry = entries.find(({ slug }) => slug === reference?.slug);
    const version = entry?.versions.find((each) => each.version === (reference?.version ?? entry.recommended));
    if (entry !== undefined && version?.source !== undefined) return [{ entry, version }];
    logger.warn({ model: name }, 'a model in models.warm has no weights that can be loaded here');
    return [];
  });
}

const ABSENT = `it ${NEEDS_ENGINES}, or configure an upstream for it`;
const hasRuntime = ({ engine }: ModelVersion): boolean =>
  drivers.some(({ name, local }) => name === engine.driver && local !== undefined);

/** Engine processes on this machine and upstreams elsewhere, as one fleet. */
export function composeEngines(options: EngineOptions): { fleet: Fleet; warm(): Promise<void> } {
  const { config, entries, weights, metrics, logger, env } = options;
  const registry = createEngineRegistry({
    weights: {
      ensure: ({ entry, version }, options) => {
        const model = storedModel(entry, version);
        if (model === undefined) throw errors.modelUnavailable(entry.slug, 'it has no weights that could run here');
        return weights.ensure(model, options);
      },
    },
    settings: { ...config.engines, ...config.models },
    drivers,
    driverSettings: config.engines,
    clock,
    logger,
    metrics,
    environment: env,
    machineFile: machineFile(config),
  });
  const fleet = createFleet({
    region: config.region,
    entries,
    upstreams: allUpstreams(config),
    registry,
    weights: (entry, version) => {
      const model = storedModel(entry, version);
      if (model === undefined) return { servable: false };
      return hasRuntime(version) ? weights.state(model) : { servable: false, reason: ABSENT, remedy: ABSENT };
    },
    remote: {
      logger,
      clock,
      metrics: options.upstreamMetrics,
      scrub: options.scrub,
      queue: { length: config.engines.queueLength, timeoutMs: config.engines.queueTimeoutSeconds * 1000 },
    },
  });
  return { fleet, warm: () => registry.warm(warmModels(options)) };
}
