import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { systemClock as clock, steadyClock } from '@baobab/core/runtime/clock.ts';
import { secretsOf } from '../../config/secrets.ts';
import { createEngineMetrics } from '../../metrics/engine-metrics.ts';
import { withTokenRates } from '../../metrics/token-rates.ts';
import { createUpstreamMetrics } from '../../metrics/upstream-metrics.ts';
import { createCatalog } from '../../services/catalog/catalog.ts';
import { createEngineControl } from '../engine-control.ts';
import { composeEngines } from '../engines.ts';
import { allUpstreams } from '../storage.ts';
import { openWeights, storedModel } from '../weights.ts';
import { servedEntries } from '../workers/served-entries.ts';
import type { Foundation } from './foundation.ts';

const modelsWithWeights = (entries: readonly ModelEntry[]) =>
  entries.flatMap((entry) =>
    entry.versions.map((version) => storedModel(entry, version)).filter((model) => model !== undefined),
  );

export type ModelParts = Awaited<ReturnType<typeof composeModels>>;

/** The catalog, the weights, and what runs the models. */
export async function composeModels({ config, env, secrets, logger, metrics, entries, store }: Foundation) {
  const weights = openWeights(config, logger, env);
  const { metrics: engineMetrics, rates } = withTokenRates(createEngineMetrics(metrics.registry), steadyClock.now);
  const { fleet, warm } = composeEngines({
    config,
    entries,
    weights,
    metrics: engineMetrics,
    upstreamMetrics: createUpstreamMetrics(metrics.registry),
    logger,
    scrub: secrets.scrub,
    env,
  });
  const catalog = await createCatalog({
    entries,
    lifecycles: store.lifecycles,
    revisions: store.revisions,
    serving: fleet.serving,
    aliases: config.aliases,
    clock,
  });

  return {
    catalog,
    fleet,
    rates,
    engines: createEngineControl({ fleet, weights, catalog, rates, logger }),
    /** Starts to load the models in `models.warm` and to check which weights can be fetched. */
    prepare() {
      void warm();
      void weights.probe(modelsWithWeights(entries));
    },
    async reloadCatalog(): Promise<void> {
      const replaced = await servedEntries(config);
      const upstreams = allUpstreams(config);
      secrets.add(secretsOf(upstreams));
      await fleet.replace(replaced, upstreams);
      await catalog.replaceEntries(replaced);
      logger.info({ models: replaced.length }, 'read the catalog again');
      void weights.probe(modelsWithWeights(replaced));
    },
    closeWeights: () => weights[Symbol.asyncDispose](),
  };
}
