import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { limitRules } from '@baobab/core/domain/rate-limits.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { steadyClock, systemClock } from '@baobab/core/runtime/clock.ts';

import { secretsOf } from '../../config/secrets.ts';
import { drivers, NEEDS_ENGINES } from '../../drivers.ts';
import { createFleet, type Fleet } from '../../fleet/fleet.ts';
import type { EngineMetrics } from '../../host/metrics.ts';
import type { Model } from '../../host/model.ts';
import { EngineRegistry } from '../../host/registry.ts';
import { createEngineMetrics } from '../../metrics/engine-metrics.ts';
import { withTokenRates } from '../../metrics/token-rates.ts';
import { createUpstreamMetrics } from '../../metrics/upstream-metrics.ts';
import type { WeightsStore } from '../../models/store.ts';
import { startProgram } from '../../programs/program-process.ts';
import { createCatalog } from '../../services/catalog/catalog.ts';
import type { UpstreamMetrics } from '../../upstreams/routing/upstream.ts';
import { machineFile, programFolder } from '../accelerators.ts';
import { createEngineControl } from '../engine-control.ts';
import { allUpstreams } from '../storage.ts';
import { openWeights, storedModel } from '../weights.ts';
import { servedEntries } from '../workers/served-entries.ts';
import { type Foundation, whenThere } from './foundation.ts';

const modelsWithWeights = (entries: readonly ModelEntry[]) =>
  entries.flatMap((entry) =>
    entry.versions.map((version) => storedModel(entry, version)).filter((model) => model !== undefined),
  );

export type ModelParts = Awaited<ReturnType<typeof composeModels>>;

/** The catalog, the weights, and what runs the models. */
export async function composeModels(foundation: Foundation) {
  const { config, env, secrets, hfToken, logger, metrics, entries, store } = foundation;
  const weights = openWeights(config, { logger, env, hfToken });
  const { metrics: engineMetrics, rates } = withTokenRates(createEngineMetrics(metrics.registry), steadyClock.now);
  const { fleet, warm } = composeEngines({
    ...foundation,
    weights,
    metrics: engineMetrics,
    upstreamMetrics: createUpstreamMetrics(metrics.registry),
  });
  const { lifecycles, revisions } = store;
  const { serving } = fleet;
  const { aliases } = config;
  const catalog = await whenThere(
    () => createCatalog({ entries, lifecycles, revisions, serving, aliases, clock: systemClock }),
    logger,
  );

  let rules = limitRules(config.limits, entries);

  async function reload(): Promise<void> {
    const replaced = await servedEntries(config);
    const upstreams = allUpstreams(config);
    secrets.add(secretsOf(upstreams));
    await fleet.replace(replaced, upstreams);
    await catalog.replaceEntries(replaced);
    rules = limitRules(config.limits, replaced);
    logger.info({ models: replaced.length }, 'read the catalog again');
    void weights.probe(modelsWithWeights(replaced));
  }
  let reloading: Promise<void> = Promise.resolve();

  return {
    catalog,
    limitRules: () => rules,
    fleet,
    rates,
    engines: createEngineControl({ fleet, weights, catalog, rates, logger }),
    /** Starts to load the models in `models.warm` and to check which weights can be fetched. */
    prepare() {
      void warm();
      void weights.probe(modelsWithWeights(entries));
    },
    /** One after the other: what was read first must not replace what was read later. */
    reloadCatalog(): Promise<void> {
      reloading = reloading.then(reload, reload);
      return reloading;
    },
    closeWeights: () => weights[Symbol.asyncDispose](),
  };
}

interface EngineOptions extends Pick<Foundation, 'config' | 'env' | 'entries' | 'secrets' | 'secretFiles' | 'logger'> {
  weights: WeightsStore;
  metrics: EngineMetrics;
  upstreamMetrics: UpstreamMetrics;
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
function composeEngines(options: EngineOptions): { fleet: Fleet; warm(): Promise<void> } {
  const { config, entries, weights, metrics, logger, env } = options;
  const registry = new EngineRegistry({
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
    clock: steadyClock,
    logger,
    metrics,
    environment: env,
    startProgram: (options) =>
      startProgram(options, { folder: programFolder(config), region: config.region, clock: steadyClock }),
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
      clock: steadyClock,
      metrics: options.upstreamMetrics,
      scrub: options.secrets.scrub,
      keyOf: ({ apiKey, apiKeyFile }) => options.secretFiles.hold({ key: 'api_key', value: apiKey, file: apiKeyFile }),
      queue: { length: config.engines.queueLength, timeoutMs: config.engines.queueTimeoutSeconds * 1000 },
    },
  });
  return { fleet, warm: () => registry.warm(warmModels(options)) };
}
