import type { AuditAction, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { fieldChanges } from '@baobab/core/domain/audit/field-changes.ts';
import { type LifecycleDates, noticeProblem, retirementProblem } from '@baobab/core/domain/deprecation.ts';
import type { Modality, ModelAlias, ModelEntry, ModelVersion, ResolvedModel } from '@baobab/core/domain/model.ts';
import { compareListed, type ServingStatus } from '@baobab/core/domain/model-order.ts';
import { MODEL_OPERATIONS, may } from '@baobab/core/domain/operations.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import type { ComputeDevice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ModelLifecycleRepository, RevisionRepository } from '@baobab/core/ports/repositories.ts';
import { auditEntry } from '../audit/entries.ts';
import { type AliasOwner, type FoundModel, isAllowedModel, ModelIndex } from './model-index.ts';

/** Where a version can be served now. */
export interface Serving {
  regions: readonly string[];
  status: ServingStatus;
  /** Why it is unavailable, for operators. */
  reason?: string | undefined;
  /** Set when nothing is configured that could serve it: what an operator has to do. */
  remedy?: string | undefined;
  /** What it runs on here, once it is loaded. */
  device?: ComputeDevice | undefined;
}

/** A catalog entry with the version that a reference means. */
export interface CatalogModel {
  entry: ModelEntry;
  version: ModelVersion;
  serving: Serving;
  /** Other names of the model; an alias of a pin is not one of them. */
  aliases: readonly string[];
}

export interface CatalogFilter {
  modality?: Modality | undefined;
  region?: string | undefined;
  provider?: string | undefined;
  /** Default: models that can be served here, also if what serves them is down at the moment. `all`: the whole catalog. */
  status?: ServingStatus | 'all' | undefined;
  /** Patterns of slugs. Empty: all models. */
  allowedModels?: readonly string[] | undefined;
  /** Only models that a key with these scopes may call. Not applied to the whole catalog. */
  scopes?: readonly string[] | undefined;
}

export interface CatalogService {
  /** In the order of `compareListed`. */
  list(filter?: CatalogFilter, account?: AliasOwner): CatalogModel[];
  /** By slug with an optional pin, or by alias. Throws 404 for unknown and retired models, and for those that a key may not use. */
  get(reference: string, account?: AliasOwner, allowedModels?: readonly string[]): CatalogModel;
  /** Like `get`, but does not throw and says nothing about where it is served. */
  find(reference: string, account?: AliasOwner): FoundModel | undefined;
  /** Checks rights, modality and region, in that order, and returns what an inference call needs. */
  resolve(
    reference: string,
    options: { modality: Modality; regionPin: string | undefined; principal: Principal },
  ): ResolvedModel;
  /** Announces the removal of a version, or of all versions of a slug, at least 90 days ahead. */
  deprecate(reference: string, removalDate: string, by: ChangeOrigin): Promise<CatalogModel>;
  /** Stops serving it. Refused before its removal date. */
  retire(reference: string, by: ChangeOrigin): Promise<ModelEntry>;
  /** Reloads when operators have changed the store. Call it a few times a second. */
  refresh(): Promise<void>;
  /** Serves these entries from now on. */
  replaceEntries(entries: readonly ModelEntry[]): Promise<void>;
}

/** What is only down for the moment stays in the list. */
const isHosted = ({ status, remedy }: Serving): boolean => status !== 'unavailable' || remedy === undefined;

const compareModels = (one: CatalogModel, other: CatalogModel): number =>
  compareListed({ ...one.entry, status: one.serving.status }, { ...other.entry, status: other.serving.status });

export interface CatalogDependencies {
  entries: readonly ModelEntry[];
  lifecycles: ModelLifecycleRepository;
  revisions: Pick<RevisionRepository, 'current'>;
  serving(entry: ModelEntry, version: ModelVersion): Serving;
  /** Other names of models, for programs that send a fixed one. */
  aliases?: readonly ModelAlias[] | undefined;
  clock: Clock;
}

export async function createCatalog(dependencies: CatalogDependencies): Promise<CatalogService> {
  const { lifecycles, revisions, serving, clock } = dependencies;
  let { entries } = dependencies;
  const index = new ModelIndex(dependencies);
  const lifecycle = createModelLifecycle({ index, lifecycles, clock });
  let revision = -1;

  async function reload(): Promise<void> {
    index.replace(await lifecycle.apply(entries));
  }

  const describe = (entry: ModelEntry, version: ModelVersion, account?: AliasOwner): CatalogModel => ({
    entry,
    version,
    serving: serving(entry, version),
    aliases: index.aliasesOf(entry, account),
  });

  await reload();

  const service: CatalogService = {
    list({ modality, region, provider, status, allowedModels = [], scopes } = {}, account) {
      const found: CatalogModel[] = [];
      for (const entry of index.entries()) {
        if (modality !== undefined && entry.modality !== modality) continue;
        if (provider !== undefined && entry.provider !== provider) continue;
        if (!isAllowedModel(allowedModels, entry)) continue;
        if (status !== 'all' && scopes !== undefined && !may({ scopes }, MODEL_OPERATIONS[entry.modality])) continue;
        const version = index.currentVersion(entry);
        if (version === undefined) continue;
        const model = describe(entry, version, account);
        if (region !== undefined && !model.serving.regions.includes(region)) continue;
        if (status === undefined ? !isHosted(model.serving) : status !== 'all' && model.serving.status !== status)
          continue;
        found.push(model);
      }
      return found.sort(compareModels);
    },
    get(text, account, allowedModels = []) {
      const { entry, version } = index.findByName(text, account, allowedModels);
      if (!isAllowedModel(allowedModels, entry)) throw errors.modelNotFound(text);
      return describe(entry, version, account);
    },
    find: (reference, account) => index.lookUpName(reference, account).found,
    resolve(reference, { modality, regionPin, principal }) {
      const { key } = principal;
      const { entry, version } = index.findByName(reference, principal.account, key.allowedModels);
      if (!isAllowedModel(key.allowedModels, entry)) throw errors.modelNotAllowed(entry.slug);
      if (entry.modality !== modality) throw errors.wrongModality(entry.slug, entry.modality, modality);
      const isAllowed = (region: string) => key.allowedRegions.length === 0 || key.allowedRegions.includes(region);
      if (regionPin !== undefined && !isAllowed(regionPin)) throw errors.regionNotAllowed(regionPin);
      if (regionPin === undefined && key.allowedRegions.length === 0) return { reference, entry, version, regionPin };
      const { regions, remedy } = serving(entry, version);
      if (remedy !== undefined) throw errors.modelNotServed(entry.slug, remedy);
      // Served nowhere: an outage, which no other pin would help.
      if (regions.length === 0) throw errors.upstreamsAway(entry.slug, 'no region serves it at the moment');
      if (regionPin !== undefined && !regions.includes(regionPin)) {
        throw errors.regionUnavailable(entry.slug, regionPin, regions);
      }
      if (regionPin !== undefined) return { reference, entry, version, regionPin };
      // A key with allowed regions is never served elsewhere, even when the call names no region.
      const [first] = regions;
      const allowed = regions.find(isAllowed);
      if (first !== undefined && allowed === undefined) throw errors.regionNotAllowed(first);
      return { reference, entry, version, regionPin: allowed };
    },
    async deprecate(reference, removalDate, by) {
      lifecycle.checkNotice(reference, removalDate);
      // The audit entry has the dates before the change.
      await reload();
      await lifecycle.deprecate(reference, removalDate, by);
      await reload();
      return service.get(reference);
    },
    async retire(reference, by) {
      await reload();
      const entry = await lifecycle.retire(reference, by);
      await reload();
      return entry;
    },
    async replaceEntries(replaced) {
      entries = replaced;
      await reload();
    },
    async refresh() {
      const current = (await revisions.current()).models;
      if (current === revision) return;
      await reload();
      revision = current;
    },
  };
  return service;
}

interface ModelLifecycleDependencies {
  index: ModelIndex;
  lifecycles: ModelLifecycleRepository;
  clock: Clock;
}

/** Records when versions are deprecated and retired. The caller reloads the index before and after. */
function createModelLifecycle({ index, lifecycles, clock }: ModelLifecycleDependencies) {
  /** A pin means one version, a bare slug all that are not retired. */
  function targets(reference: string): { entry: ModelEntry; versions: ModelVersion[] } {
    const { entry, version } = index.find(reference);
    const pinned = parseReference(reference)?.version !== undefined;
    return { entry, versions: pinned ? [version] : index.servedVersions(entry) };
  }

  async function save(
    action: AuditAction,
    { slug, version, dates, by }: { slug: string; version: ModelVersion; dates: LifecycleDates; by: ChangeOrigin },
  ): Promise<void> {
    const name = `${slug}@${version.version}`;
    const target = { kind: 'model' as const, id: slug, name, accountId: null, accountName: null };
    const { deprecatedAt, retiredAt } = version;
    const changes = fieldChanges({ deprecatedAt, retiredAt }, { ...dates });
    const now = clock.now();
    const lifecycle = { slug, version: version.version, noticeAt: now, ...dates };
    await lifecycles.save(lifecycle, auditEntry(by, { action, target, changes }, now));
  }

  return {
    /** The entries with the dates that operators have set. */
    async apply(entries: readonly ModelEntry[]): Promise<ModelEntry[]> {
      const saved = new Map((await lifecycles.list()).map((each) => [`${each.slug}@${each.version}`, each]));
      return entries.map((entry) => ({
        ...entry,
        versions: entry.versions.map((version) => {
          const lifecycle = saved.get(`${entry.slug}@${version.version}`);
          if (lifecycle === undefined) return version;
          return { ...version, deprecatedAt: lifecycle.deprecatedAt, retiredAt: lifecycle.retiredAt };
        }),
      }));
    },

    async deprecate(reference: string, removalDate: string, by: ChangeOrigin): Promise<void> {
      const { entry, versions } = targets(reference);
      const deprecatedAt = Date.parse(`${removalDate}T00:00:00.000Z`);
      for (const version of versions) {
        const dates = { deprecatedAt, retiredAt: version.retiredAt };
        await save('model.deprecated', { slug: entry.slug, version, dates, by });
      }
    },

    checkNotice(reference: string, removalDate: string): void {
      const problem = noticeProblem(removalDate, clock.now());
      if (problem === undefined) return;
      throw errors.validationFailed(['removalDate'], `Cannot deprecate '${reference}': ${problem}.`);
    },

    async retire(reference: string, by: ChangeOrigin): Promise<ModelEntry> {
      const { entry, versions } = targets(reference);
      const retiredAt = clock.now();
      for (const version of versions) {
        const problem = retirementProblem(version, retiredAt);
        if (problem !== undefined) {
          throw errors.validationFailed(['model'], `Cannot retire '${entry.slug}@${version.version}': ${problem}.`);
        }
      }
      for (const version of versions) {
        const dates = { deprecatedAt: version.deprecatedAt, retiredAt };
        await save('model.retired', { slug: entry.slug, version, dates, by });
      }
      return entry;
    },
  };
}
