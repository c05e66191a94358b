import type { AuditAction, ChangeOrigin } from '../domain/audit/entry.ts';
import { fieldChanges } from '../domain/audit/field-changes.ts';
import { noticeProblem, retirementProblem, versionState } from '../domain/deprecation.ts';
import type { Modality, ModelAlias, ModelEntry, ModelVersion } from '../domain/model.ts';
import type { Account, Principal } from '../domain/principal.ts';
import { matchesPattern, parseReference } from '../domain/slug.ts';
import type { ComputeDevice } from '../engines/engine.ts';
import { errors } from '../errors/errors.ts';
import type { Clock } from '../ports/clock.ts';
import type { ModelLifecycleRepository, RevisionRepository } from '../ports/repositories.ts';
import { nearestSlug } from '../runtime/nearest.ts';
import { auditEntry } from './audit/entries.ts';

export type ServingStatus = 'ready' | 'cold' | 'unavailable';

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

export interface ResolvedModel {
  /** As the client sent it. */
  reference: string;
  entry: ModelEntry;
  version: ModelVersion;
  /** Sent by the caller, or chosen from the regions of its key. Undefined: any region. */
  regionPin: string | undefined;
}

export interface CatalogFilter {
  modality?: Modality | undefined;
  region?: string | undefined;
  provider?: string | undefined;
  status?: ServingStatus | undefined;
  /** Patterns of slugs. Empty: all models. */
  allowedModels?: readonly string[] | undefined;
}

/** Its aliases take precedence over those of the deployment. */
type AliasOwner = Pick<Account, 'aliases'>;

export interface CatalogService {
  list(filter?: CatalogFilter, account?: AliasOwner): CatalogModel[];
  /** By slug with an optional pin, or by alias. Throws 404 for unknown and retired models, and for those that a key may not use. */
  get(reference: string, account?: AliasOwner, allowedModels?: readonly string[]): CatalogModel;
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

export interface CatalogDependencies {
  entries: readonly ModelEntry[];
  lifecycles: ModelLifecycleRepository;
  revisions: Pick<RevisionRepository, 'current'>;
  serving(entry: ModelEntry, version: ModelVersion): Serving;
  /** Other names of models, for programs that send a fixed one. */
  aliases?: readonly ModelAlias[] | undefined;
  clock: Clock;
}

interface Decision {
  slug: string;
  version: ModelVersion;
  dates: { deprecatedAt: number | null; retiredAt: number | null };
  by: ChangeOrigin;
}

const isAllowedModel = (patterns: readonly string[], { slug }: ModelEntry): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matchesPattern(slug, pattern));

/** Of those that may have been meant. */
const SHOWN_VERSIONS = 3;

export async function createCatalog(dependencies: CatalogDependencies): Promise<CatalogService> {
  const { lifecycles, revisions, serving, clock } = dependencies;
  let { entries } = dependencies;
  const aliases = new Map(dependencies.aliases?.map(({ name, model }) => [name, model]));
  let models = new Map<string, ModelEntry>();
  let revision = -1;

  async function reload(): Promise<void> {
    const decided = new Map((await lifecycles.list()).map((each) => [`${each.slug}@${each.version}`, each]));
    models = new Map(
      entries.map((entry) => [
        entry.slug,
        {
          ...entry,
          versions: entry.versions.map((version) => {
            const decision = decided.get(`${entry.slug}@${version.version}`);
            if (decision === undefined) return version;
            return { ...version, deprecatedAt: decision.deprecatedAt, retiredAt: decision.retiredAt };
          }),
        },
      ]),
    );
  }

  const isRetired = (version: ModelVersion) => versionState(version, clock.now()) === 'retired';

  /** The recommended version, or the newest one when that is retired. */
  function currentVersion(entry: ModelEntry): ModelVersion | undefined {
    const recommended = entry.versions.find(({ version }) => version === entry.recommended);
    if (recommended !== undefined && !isRetired(recommended)) return recommended;
    const alive = entry.versions.filter((version) => !isRetired(version));
    return alive.toSorted((left, right) => (left.version < right.version ? 1 : -1))[0];
  }

  /** `text` is a slug with an optional pin; `sent` is what the error names. */
  function find(
    text: string,
    sent = text,
    hint?: () => readonly string[],
  ): { entry: ModelEntry; version: ModelVersion } {
    // Most callers send a plain slug, which needs no parsing.
    const reference = models.has(text) ? { slug: text, version: undefined } : parseReference(text);
    const entry = reference === undefined ? undefined : models.get(reference.slug);
    if (reference === undefined || entry === undefined) throw errors.modelNotFound(sent, hint?.());
    const version =
      reference.version === undefined
        ? currentVersion(entry)
        : entry.versions.find((each) => each.version === reference.version && !isRetired(each));
    if (version === undefined) throw errors.modelNotFound(sent, hint?.());
    return { entry, version };
  }

  /** What someone means who left out the provider, wrote the name with capitals as hubs do, mistyped it, or pinned a version that is not there. */
  function meant(text: string, allowedModels: readonly string[]): string[] {
    const [wanted = '', pin] = text.toLowerCase().split('@');
    const usable = [...models.values()].filter(
      (entry) => isAllowedModel(allowedModels, entry) && currentVersion(entry) !== undefined,
    );
    const slug = nearestSlug(
      wanted,
      usable.map((each) => each.slug),
    );
    const entry = slug === undefined ? undefined : models.get(slug);
    if (entry === undefined) return [];
    if (pin === undefined) return [entry.slug];
    const served = entry.versions.filter((each) => !isRetired(each)).map(({ version }) => version);
    const newest = served.sort().reverse().slice(0, SHOWN_VERSIONS);
    return newest.map((version) => `${entry.slug}@${version}`);
  }

  function findByName(text: string, account: AliasOwner | undefined, allowedModels: readonly string[]) {
    if (models.has(text)) return find(text);
    const own = account?.aliases.find(({ name }) => name === text);
    const target = own?.model ?? aliases.get(text);
    return find(target ?? text, text, () => (target === undefined ? meant(text, allowedModels) : []));
  }

  function aliasesOf({ slug }: ModelEntry, account: AliasOwner | undefined): string[] {
    const all = new Map(aliases);
    for (const { name, model } of account?.aliases ?? []) all.set(name, model);
    return [...all].filter(([, model]) => model === slug).map(([name]) => name);
  }

  const describe = (entry: ModelEntry, version: ModelVersion, account?: AliasOwner): CatalogModel => ({
    entry,
    version,
    serving: serving(entry, version),
    aliases: aliasesOf(entry, account),
  });

  /** A pin means one version, a bare slug all that are not retired. */
  function targets(text: string): { entry: ModelEntry; versions: ModelVersion[] } {
    const { entry, version } = find(text);
    const pinned = parseReference(text)?.version !== undefined;
    return { entry, versions: pinned ? [version] : entry.versions.filter((each) => !isRetired(each)) };
  }

  async function decide(action: AuditAction, decision: Decision): Promise<void> {
    const { slug, version, dates, by } = decision;
    const reference = `${slug}@${version.version}`;
    const target = { kind: 'model' as const, id: slug, name: reference, accountId: null, accountName: null };
    const { deprecatedAt, retiredAt } = version;
    const changes = fieldChanges({ deprecatedAt, retiredAt }, dates);
    const now = clock.now();
    const lifecycle = { slug, version: version.version, noticeAt: now, ...dates };
    await lifecycles.save(lifecycle, auditEntry(by, { action, target, changes }, now));
  }

  await reload();

  const service: CatalogService = {
    list({ modality, region, provider, status, allowedModels = [] } = {}, account) {
      const found: CatalogModel[] = [];
      for (const entry of models.values()) {
        if (modality !== undefined && entry.modality !== modality) continue;
        if (provider !== undefined && entry.provider !== provider) continue;
        if (!isAllowedModel(allowedModels, entry)) continue;
        const version = currentVersion(entry);
        if (version === undefined) continue;
        const model = describe(entry, version, account);
        if (region !== undefined && !model.serving.regions.includes(region)) continue;
        if (status !== undefined && model.serving.status !== status) continue;
        found.push(model);
      }
      return found;
    },
    get(text, account, allowedModels = []) {
      const { entry, version } = findByName(text, account, allowedModels);
      if (!isAllowedModel(allowedModels, entry)) throw errors.modelNotFound(text);
      return describe(entry, version, account);
    },
    resolve(reference, { modality, regionPin, principal }) {
      const { key } = principal;
      const { entry, version } = findByName(reference, principal.account, key.allowedModels);
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
    async deprecate(text, removalDate, by) {
      const problem = noticeProblem(removalDate, clock.now());
      if (problem !== undefined)
        throw errors.validationFailed(['removalDate'], `Cannot deprecate '${text}': ${problem}.`);
      // The entry of the change says what it was before.
      await reload();
      const { entry, versions } = targets(text);
      const deprecatedAt = Date.parse(`${removalDate}T00:00:00.000Z`);
      for (const version of versions) {
        const dates = { deprecatedAt, retiredAt: version.retiredAt };
        await decide('model.deprecated', { slug: entry.slug, version, dates, by });
      }
      await reload();
      return service.get(text);
    },
    async retire(text, by) {
      await reload();
      const { entry, versions } = targets(text);
      const retiredAt = clock.now();
      for (const version of versions) {
        const problem = retirementProblem(version, clock.now());
        if (problem !== undefined) {
          throw errors.validationFailed(['model'], `Cannot retire '${entry.slug}@${version.version}': ${problem}.`);
        }
      }
      for (const version of versions) {
        const dates = { deprecatedAt: version.deprecatedAt, retiredAt };
        await decide('model.retired', { slug: entry.slug, version, dates, by });
      }
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
