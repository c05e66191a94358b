import { versionState } from '@baobab/core/domain/deprecation.ts';
import type { ModelAlias, ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import type { Account } from '@baobab/core/domain/principal.ts';
import { matchesPattern, parseReference } from '@baobab/core/domain/slug.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';

/** Its aliases take precedence over those of the deployment. */
export type AliasOwner = Pick<Account, 'aliases'>;

export interface FoundModel {
  entry: ModelEntry;
  version: ModelVersion;
}

export const isAllowedModel = (patterns: readonly string[], { slug }: ModelEntry): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matchesPattern(slug, pattern));

/** Suggested when a pin is unknown. */
const MAX_SUGGESTED_VERSIONS = 3;

/** Finds models by slug, pin and alias. */
export class ModelIndex {
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
