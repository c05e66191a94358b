import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import type { BatchLane, CallContext, ComputeDevice, EngineLease } from '@baobab/core/engine/engine.ts';
import { type EngineReport, idleEngine } from '@baobab/core/engine/report.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { createInteractiveLoad } from '../admission/interactive-load.ts';
import type { Model } from '../host/model.ts';
import type { ModelLease } from '../host/model-host.ts';
import type { EngineRegistry } from '../host/registry.ts';
import { createRemoteModel, type RemoteModel, type RemoteModelOptions } from '../upstreams/remote-model.ts';

export interface FleetServing {
  regions: readonly string[];
  status: 'ready' | 'cold' | 'unavailable';
  reason?: string | undefined;
  /** Set when nothing is configured that could serve it: what an operator has to do. */
  remedy?: string | undefined;
  /** What it runs on here, once it is loaded. */
  device?: ComputeDevice | undefined;
}

/** Every way to run a model: engine processes on this machine, and upstreams. */
export interface Fleet {
  acquire(model: Model, context: CallContext, regionPin: string | undefined): EngineLease | Promise<EngineLease>;
  /** Interactive requests that wait or run, of all models. */
  interactiveRequests(): number;
  /** Where lines of batches for the model would run now. Undefined: for lines that do not name a model, which fail here. */
  batchLane(model: Model | undefined): BatchLane;
  serving(entry: ModelEntry, version: ModelVersion): FleetServing;
  /** Every model that was requested since the start or has upstreams. */
  list(): Promise<EngineReport[]>;
  /** Loads a model here. Never rejects: one that cannot load is `unavailable`. */
  load(model: Model): Promise<void>;
  /** Lets running requests end and frees the memory that a model takes here. */
  unload(model: Model): Promise<void>;
  /** Serves these models with these upstreams from now on. Requests that run on a removed one may fail. */
  replace(entries: readonly ModelEntry[], upstreams: readonly Upstream[]): Promise<void>;
  close(drainMs: number): Promise<void>;
}

/** Engines are idle as soon as their last request has ended. */
const LOCAL_RECOVERY_MS = 400;

type Upstream = RemoteModelOptions['upstreams'][number] & { model: string };

export interface FleetOptions {
  region: string;
  entries: readonly ModelEntry[];
  upstreams: readonly Upstream[];
  registry: Omit<EngineRegistry, 'warm'>;
  /** Whether weights are here or can be fetched. */
  weights(
    entry: ModelEntry,
    version: ModelVersion,
  ): { servable: boolean; reason?: string | undefined; remedy?: string | undefined };
  remote: Pick<RemoteModelOptions, 'logger' | 'clock' | 'queue' | 'metrics' | 'scrub' | 'keyOf'>;
}

const taskOf = (version: ModelVersion): RemoteModelOptions['task'] =>
  version.engine.task === 'late-interaction' ? 'cross-encoder' : version.engine.task;

const remedyOf = ({ slug }: ModelEntry): string =>
  `no upstream is configured for it. Add one with 'model: ${slug}' to upstreams in baobab.yaml, or run 'baobab models add' with its address`;

/** By `slug@version`, for the versions that have upstreams. */
function remoteOptions(entries: readonly ModelEntry[], upstreams: readonly Upstream[]) {
  const found = new Map<
    string,
    Pick<RemoteModelOptions, 'slug' | 'version' | 'task' | 'contextLength' | 'upstreams'>
  >();
  const byModel = Map.groupBy(upstreams, ({ model }) => model);
  for (const entry of entries) {
    for (const version of entry.versions) {
      const name = `${entry.slug}@${version.version}`;
      const unpinned = version.version === entry.recommended ? byModel.get(entry.slug) : undefined;
      const serving = [...(byModel.get(name) ?? []), ...(unpinned ?? [])];
      if (serving.length === 0) continue;
      const { contextLength } = entry;
      const task = taskOf(version);
      found.set(name, { slug: entry.slug, version: version.version, task, contextLength, upstreams: serving });
    }
  }
  return found;
}

/** Without keys from files: they may change at any time. */
const originOf = (options: Pick<RemoteModelOptions, 'upstreams'>): string =>
  JSON.stringify(options, (_name, value) =>
    value?.apiKeyFile === undefined ? value : { ...value, apiKey: undefined },
  );

export function createFleet({ region, entries, upstreams, registry, weights, remote }: FleetOptions): Fleet {
  /** By `slug@version`; an upstream without a pin serves the recommended version. */
  const remotes = new Map<string, RemoteModel>();
  /** What each was created from: an unchanged one keeps its connections and its health. */
  const origins = new Map<string, string>();
  /** By `slug@version`. */
  const models = new Map<string, Model>();

  function configure(entries: readonly ModelEntry[], upstreams: readonly Upstream[]): RemoteModel[] {
    models.clear();
    for (const entry of entries) {
      for (const version of entry.versions) models.set(`${entry.slug}@${version.version}`, { entry, version });
    }
    const wanted = remoteOptions(entries, upstreams);
    const dropped: RemoteModel[] = [];
    for (const [name, model] of [...remotes]) {
      const options = wanted.get(name);
      if (options !== undefined && origins.get(name) === originOf(options)) continue;
      dropped.push(model);
      remotes.delete(name);
    }
    for (const [name, options] of wanted) {
      if (remotes.has(name)) continue;
      remotes.set(name, createRemoteModel({ ...options, ...remote, ownRegion: region }));
      origins.set(name, originOf(options));
    }
    return dropped;
  }
  configure(entries, upstreams);

  /** Names of versions, built once. */
  const names = new WeakMap<ModelVersion, string>();
  const nameOf = (entry: ModelEntry, version: ModelVersion): string => {
    const known = names.get(version);
    if (known !== undefined) return known;
    const name = `${entry.slug}@${version.version}`;
    names.set(version, name);
    return name;
  };

  /** Engine processes share the processors of this machine, whatever models they run. */
  const interactiveHere = createInteractiveLoad(remote.clock);
  const laneHere: BatchLane = {
    name: 'local',
    most: (wanted) => wanted,
    mustYield: interactiveHere.isPresent,
    recoveryMs: LOCAL_RECOVERY_MS,
  };

  function acquireHere(model: Model, context: CallContext): EngineLease | Promise<EngineLease> {
    const leave = interactiveHere.enter(context);
    const here = (lease: ModelLease): EngineLease => ({
      engine: lease.engine,
      region,
      countsAreTrue: true,
      [Symbol.dispose]() {
        leave();
        lease[Symbol.dispose]();
      },
    });
    const failed = (error: unknown): never => {
      leave();
      throw error;
    };
    let lease: ReturnType<EngineRegistry['acquire']>;
    try {
      lease = registry.acquire(model, context);
    } catch (error) {
      return failed(error);
    }
    return lease instanceof Promise ? lease.then(here, failed) : here(lease);
  }

  function local(entry: ModelEntry, version: ModelVersion): FleetServing {
    // With upstreams, which may be back soon, there is nothing to do.
    const hasUpstreams = remotes.has(nameOf(entry, version));
    if (version.source === undefined) {
      const remedy = hasUpstreams ? undefined : remedyOf(entry);
      return { regions: [], status: 'unavailable', reason: remedy ?? 'none of its upstreams is healthy', remedy };
    }
    const found = registry.status(nameOf(entry, version));
    if (found.status === 'ready') return { regions: [region], status: 'ready', device: found.device };
    const { servable, reason, remedy: own } = weights(entry, version);
    const remedy = hasUpstreams ? undefined : own;
    if (found.status === 'unavailable') return { regions: [], status: 'unavailable', reason: found.reason, remedy };
    return servable ? { regions: [region], status: 'cold' } : { regions: [], status: 'unavailable', reason, remedy };
  }

  function serving(entry: ModelEntry, version: ModelVersion): FleetServing {
    const own = local(entry, version);
    const regions = remotes.get(nameOf(entry, version))?.regions() ?? [];
    if (regions.length === 0) return own;
    return { regions: [...new Set([...own.regions, ...regions])].sort(), status: 'ready' };
  }

  /** Adds the status of the local engine and the upstreams together, as `serving` gives it. */
  function withStatus(report: EngineReport): EngineReport {
    const model = models.get(report.model);
    if (model === undefined || report.status === 'loading' || report.status === 'unloading') return report;
    return { ...report, status: serving(model.entry, model.version).status };
  }

  return {
    acquire(model, context, regionPin) {
      const { entry, version } = model;
      const elsewhere = remotes.get(nameOf(entry, version));
      const runsHere = version.source !== undefined && (regionPin === undefined || regionPin === region);
      // Configured upstreams go first. Engine processes serve when no upstream is healthy.
      const lease = elsewhere?.acquire(context, regionPin, runsHere);
      if (lease !== undefined) return lease;
      if (version.source === undefined) throw errors.modelNotServed(entry.slug, remedyOf(entry));
      if (!runsHere) throw errors.upstreamsAway(entry.slug, 'no upstream serves it at the moment');
      const own = acquireHere(model, context);
      if (elsewhere === undefined || !(own instanceof Promise)) return own;
      return own.catch((error) => notHereEither(entry.slug, error));
    },
    interactiveRequests() {
      let running = interactiveHere.running;
      for (const { interactive } of remotes.values()) running += interactive.running;
      return running;
    },
    batchLane(model) {
      const elsewhere = model && remotes.get(nameOf(model.entry, model.version));
      if (elsewhere === undefined) return laneHere;
      return model?.version.source === undefined || elsewhere.isHealthy() ? elsewhere.batchLane : laneHere;
    },
    serving,
    async list() {
      const local = await registry.list();
      const elsewhere = [...remotes].filter(([name]) => !local.some(({ model }) => model === name));
      return [
        ...local.map((report) => ({ ...report, upstreams: remotes.get(report.model)?.health() ?? [] })),
        ...elsewhere.map(([name, model]) => remoteReport(name, model)),
      ].map(withStatus);
    },
    load: (model) => registry.load(model),
    unload: (model) => registry.unload(model),
    async replace(newEntries, newUpstreams) {
      const dropped = configure(newEntries, newUpstreams);
      const names = new Set(
        newEntries.flatMap(({ slug, versions }) => versions.map((each) => `${slug}@${each.version}`)),
      );
      await registry.keepOnly(names);
      await Promise.all(dropped.map((model) => model[Symbol.asyncDispose]()));
    },
    async close(drainMs) {
      await registry.close(drainMs);
      await Promise.all([...remotes.values()].map((model) => model[Symbol.asyncDispose]()));
    },
  };
}

/** An upstream may be back long before the weights can be fetched, so clients should retry soon. */
function notHereEither(slug: string, error: unknown): never {
  if (!(error instanceof ApiError) || error.code !== 'model_unavailable') throw error;
  throw errors.upstreamsAway(slug, 'none of its upstreams is healthy', error);
}

function remoteReport(name: string, model: RemoteModel): EngineReport {
  const upstreams = model.health();
  const problems = upstreams.flatMap(({ address, problem }) =>
    problem === undefined ? [] : [`${address}: ${problem}`],
  );
  return {
    ...idleEngine(name, model.isHealthy() ? 'ready' : 'unavailable'),
    reason: problems.length > 0 ? problems.join('; ') : null,
    inFlight: upstreams.reduce((sum, { inFlight }) => sum + inFlight, 0),
    queueDepth: model.waiting(),
    upstreams,
  };
}
