import type { AuditAction, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { fieldChanges } from '@baobab/core/domain/audit/field-changes.ts';
import { type LifecycleDates, noticeProblem, retirementProblem } from '@baobab/core/domain/deprecation.ts';
import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ModelLifecycleRepository } from '@baobab/core/ports/repositories.ts';
import { auditEntry } from '../audit/entries.ts';

interface ModelLifecycleDependencies {
  index: {
    /** By slug with an optional pin. Throws 404 for what is not served. */
    find(reference: string): { entry: ModelEntry; version: ModelVersion };
    servedVersions(entry: ModelEntry): ModelVersion[];
  };
  lifecycles: ModelLifecycleRepository;
  clock: Clock;
}

/** Records when versions are deprecated and retired. The caller reloads the index before and after. */
export function createModelLifecycle({ index, lifecycles, clock }: ModelLifecycleDependencies) {
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
