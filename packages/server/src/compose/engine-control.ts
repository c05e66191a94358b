import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { type EngineReport, idleEngine } from '@baobab/core/engine/report.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { TokenRates } from '../metrics/token-rates.ts';
import type { WeightsStore } from '../models/store.ts';
import type { CatalogService } from '../services/catalog/catalog.ts';
import type { EngineControl, OperatedEngine, WeightsReport } from '../services/operators/engine-control.ts';
import { storedModel } from './weights.ts';

export interface EngineControlDependencies {
  fleet: Fleet;
  weights: WeightsStore;
  catalog: CatalogService;
  rates: TokenRates;
  logger: Pick<Logger, 'error'>;
}

const nameOf = (entry: ModelEntry, version: ModelVersion): string => `${entry.slug}@${version.version}`;

export function createEngineControl(dependencies: EngineControlDependencies): EngineControl {
  const { fleet, weights, catalog, rates, logger } = dependencies;

  function weightsOf(entry: ModelEntry, version: ModelVersion): WeightsReport | null {
    const model = storedModel(entry, version);
    if (model === undefined) return null;
    const { status, bytesOnDisk, totalBytes, reason = null, retryAtMs = null } = weights.state(model);
    return { status, bytesOnDisk, totalBytes, reason, retryAt: retryAtMs };
  }

  function reportOf(entry: ModelEntry, version: ModelVersion, running: EngineReport | undefined): OperatedEngine {
    const name = nameOf(entry, version);
    const serving = fleet.serving(entry, version);
    const { model: _, ...report } = running ?? idleEngine(name, serving.status);
    return {
      ...report,
      slug: entry.slug,
      version: version.version,
      driver: version.engine.driver,
      reason: report.reason ?? serving.reason ?? null,
      tokensPerSecond: rates.of(name),
      weights: weightsOf(entry, version),
    };
  }

  async function list(): Promise<OperatedEngine[]> {
    const running = new Map((await fleet.list()).map((report) => [report.model, report]));
    return catalog
      .list({ status: 'all' })
      .flatMap(({ entry }) =>
        entry.versions
          .filter(({ retiredAt }) => retiredAt === null)
          .map((version) => reportOf(entry, version, running.get(nameOf(entry, version)))),
      );
  }

  /** Does something with a model that can run here, and reports it afterwards. */
  async function change(
    reference: string,
    action: (entry: ModelEntry, version: ModelVersion) => Promise<void>,
  ): Promise<OperatedEngine> {
    const { entry, version } = catalog.get(reference);
    if (version.source === undefined) {
      throw errors.invalidParameter(['model'], `Only upstreams serve ${entry.slug}: it has no weights to run here.`);
    }
    await action(entry, version);
    const name = nameOf(entry, version);
    return reportOf(
      entry,
      version,
      (await fleet.list()).find(({ model }) => model === name),
    );
  }

  const report = (what: string, model: string) => (error: unknown) =>
    logger.error({ model, reason: (error as Error).message }, what);

  return {
    list,
    pull: (reference) =>
      change(reference, async (entry, version) => {
        const model = storedModel(entry, version);
        if (model !== undefined) weights.pull(model).catch(report('weights were not pulled', entry.slug));
      }),
    load: (reference) =>
      change(reference, async (entry, version) => {
        fleet.load({ entry, version }).catch(report('model not loaded', entry.slug));
      }),
    unload: (reference) => change(reference, (entry, version) => fleet.unload({ entry, version })),
  };
}
