import type { ModelEntry, ModelVersion } from '../../domain/model.ts';
import type { Fleet, FleetReport } from '../../engines/fleet.ts';
import { errors } from '../../errors/errors.ts';
import type { TokenRates } from '../../metrics/token-rates.ts';
import type { WeightsStore } from '../../models/store.ts';
import type { Logger } from '../../ports/logger.ts';
import type { CatalogService } from '../../services/catalog/catalog.ts';
import type { EngineControl, EngineReport, WeightsReport } from '../../services/operators/engine-control.ts';
import { storedModel } from '../weights.ts';

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

  function reportOf(entry: ModelEntry, version: ModelVersion, running: FleetReport | undefined): EngineReport {
    const serving = fleet.serving(entry, version);
    return {
      slug: entry.slug,
      version: version.version,
      driver: version.engine.driver,
      status: running?.status ?? serving.status,
      reason: running?.reason ?? serving.reason ?? null,
      processIds: running?.pids ?? [],
      memoryBytes: running?.memoryBytes ?? 0,
      device: running?.device ?? null,
      loadedAt: running?.loadedAt ?? null,
      loadMs: running?.loadMs ?? null,
      inFlight: running?.inFlight ?? 0,
      queueDepth: running?.queueDepth ?? 0,
      tokensPerSecond: rates.of(nameOf(entry, version)),
      weights: weightsOf(entry, version),
      upstreams: (running?.upstreams ?? []).map(({ problem = null, lastError = null, ...upstream }) => ({
        ...upstream,
        problem,
        lastError,
      })),
    };
  }

  async function list(): Promise<EngineReport[]> {
    const running = new Map((await fleet.list()).map((report) => [report.model, report]));
    return catalog
      .list()
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
  ): Promise<EngineReport> {
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
