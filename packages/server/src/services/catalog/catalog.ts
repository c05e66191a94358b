import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { versionState } from '@baobab/core/domain/deprecation.ts';
import type { Modality, ModelAlias, ModelEntry, ModelVersion, ResolvedModel } from '@baobab/core/domain/model.ts';
import { compareListed, type ServingStatus } from '@baobab/core/domain/model-order.ts';
import { MODEL_OPERATIONS, may } from '@baobab/core/domain/operations.ts';
import type { Account, Principal } from '@baobab/core/domain/principal.ts';
import { matchesPattern, parseReference } from '@baobab/core/domain/slug.ts';
import type { ComputeDevice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ModelLifecycleRepository, RevisionRepository } from '@baobab/core/ports/repositories.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';
import { createModelLifecycle } from './lifecycle.ts';

/** Its aliases take precedence over those of the deployment. */
export type AliasOwner = Pick<Account, 'aliases'>;

export interface FoundModel {
  entry: ModelEntry;
  version: ModelVersion;
}

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

const isAllowedModel = (patterns: readonly string[], { slug }: ModelEntry): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matchesPattern(slug, pattern));

/** Suggested when a pin is unknown. */
const MAX_SUGGESTED_VERSIONS = 3;

/** Finds models by slug, pin and alias. */
class ModelIndex {
  readonly #clock: Clock;
  readonly #aliases: ReadonlyMap<string, string>;
  #models = new Map<string, ModelEntry>();

  constructor({ aliases = [], clock }: { aliases?: readonly ModelAlias[] | undefined; clock: Clock }) {
    this.#clock = clock;
    this.#aliases = new Map(aliases.map(({ name, model }) => [name, model]));
  }

  entries(): Iterable<ModelEntry> {
    return this.#models.values();
  }

  replace(entries: readonly ModelEntry[]): void {
    this.#models = new Map(entries.map((entry) => [entry.slug, entry]));
  }

  /** The recommended version, or the newest one when that is retired. */
  currentVersion(entry: ModelEntry): ModelVersion | undefined {
    const recommended = entry.versions.find(({ version }) => version === entry.recommended);
    if (recommended !== undefined && !this.#isRetired(recommended)) return recommended;
    return this.servedVersions(entry).toSorted((left, right) => (left.version < right.version ? 1 : -1))[0];
  }

  servedVersions(entry: ModelEntry): ModelVersion[] {
    return entry.versions.filter((version) => !this.#isRetired(version));
  }

  /** By slug with an optional pin. */
  find(reference: string): FoundModel {
    const found = this.#lookUp(reference);
    if (found === undefined) throw errors.modelNotFound(reference);
    return found;
  }

  /** By slug with an optional pin, or by alias. An error suggests models that `allowedModels` match. */
  findByName(name: string, account: AliasOwner | undefined, allowedModels: readonly string[]): FoundModel {
    if (this.#models.has(name)) return this.find(name);
    const { found, isAlias } = this.lookUpName(name, account);
    if (found !== undefined) return found;
    throw errors.modelNotFound(name, isAlias ? [] : this.#suggestions(name, allowedModels));
  }

  lookUpName(name: string, account: AliasOwner | undefined): { found: FoundModel | undefined; isAlias: boolean } {
    if (this.#models.has(name)) return { found: this.#lookUp(name), isAlias: false };
    const own = account?.aliases.find((alias) => alias.name === name);
    const target = own?.model ?? this.#aliases.get(name);
    return { found: this.#lookUp(target ?? name), isAlias: target !== undefined };
  }

  aliasesOf({ slug }: ModelEntry, account: AliasOwner | undefined): string[] {
    const all = new Map(this.#aliases);
    for (const { name, model } of account?.aliases ?? []) all.set(name, model);
    return [...all].filter(([, model]) => model === slug).map(([name]) => name);
  }

  #isRetired(version: ModelVersion): boolean {
    return versionState(version, this.#clock.now()) === 'retired';
  }

  #lookUp(text: string): FoundModel | undefined {
    // Most callers send a plain slug, which needs no parsing.
    const reference = this.#models.has(text) ? { slug: text, version: undefined } : parseReference(text);
    const entry = reference === undefined ? undefined : this.#models.get(reference.slug);
    if (reference === undefined || entry === undefined) return undefined;
    const version =
      reference.version === undefined
        ? this.currentVersion(entry)
        : entry.versions.find((each) => each.version === reference.version && !this.#isRetired(each));
    return version && { entry, version };
  }

  /** For names without a provider, with the capitals of hubs, with typing errors or with an unknown pin. */
  #suggestions(name: string, allowedModels: readonly string[]): string[] {
    const [wanted = '', pin] = name.toLowerCase().split('@');
    const usable = [...this.#models.values()].filter(
      (entry) => isAllowedModel(allowedModels, entry) && this.currentVersion(entry) !== undefined,
    );
    const slug = nearestSlug(
      wanted,
      usable.map((each) => each.slug),
    );
    const entry = slug === undefined ? undefined : this.#models.get(slug);
    if (entry === undefined) return [];
    if (pin === undefined) return [entry.slug];
    const served = this.servedVersions(entry).map(({ version }) => version);
    const newest = served.sort().reverse().slice(0, MAX_SUGGESTED_VERSIONS);
    return newest.map((version) => `${entry.slug}@${version}`);
  }
}
