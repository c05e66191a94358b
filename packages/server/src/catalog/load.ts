import { existsSync, globSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import { providerOf } from '@baobab/core/domain/slug.ts';
import { Value } from 'typebox/value';
import { drivers as allDrivers } from '../drivers.ts';
import { inOrderOfLines, readYaml } from '../validation/document.ts';
import { snake } from '../validation/names.ts';
import { problemsOf } from '../validation/problems.ts';
import { BUILT_IN_CATALOG } from './built-in.ts';
import { withDefaults } from './defaults.ts';
import { type EngineChecks, engineProblems, toEngineSpec } from './engine-spec.ts';
import { checkRules } from './rules.ts';
import { CatalogFile } from './schema.ts';
import { toSource } from './source.ts';

export class CatalogError extends Error {
  override readonly name = 'CatalogError';
}

const midnight = (date: string): number => Date.parse(`${date}T00:00:00.000Z`);

/** Also for files that have other problems. */
function engineProblemsOf(model: unknown, checks: EngineChecks): string[] {
  const { versions } = (model ?? {}) as { versions?: unknown };
  if (!Array.isArray(versions)) return [];
  return versions.flatMap((version: unknown, index) => {
    const { engine } = (version ?? {}) as { engine?: unknown };
    if (typeof engine !== 'object' || engine === null) return [];
    return engineProblems(engine, ['versions', String(index), 'engine'], checks);
  });
}

function toEntry(model: CatalogFile): ModelEntry {
  const versions = model.versions.map(
    (version): ModelVersion => ({
      version: version.version,
      engine: toEngineSpec(version.engine),
      source: toSource(version.source),
      deprecatedAt: version.deprecatedAt === undefined ? null : midnight(version.deprecatedAt),
      retiredAt: version.retiredAt === undefined ? null : midnight(version.retiredAt),
    }),
  );
  return {
    ...model,
    provider: providerOf(model.slug),
    created: midnight(model.created) / 1000,
    versions,
  };
}

/** Reads every `*.yaml` below the directories. Throws one error that lists every problem with file and line. */
export function loadCatalog(directories: readonly string[], drivers = allDrivers): ModelEntry[] {
  const problems: string[] = [];
  const entries = new Map<string, ModelEntry>();
  for (const directory of directories) {
    if (!existsSync(directory)) {
      problems.push(`${directory}: there is no such catalog directory`);
      continue;
    }
    const seen = new Map<string, string>();
    const builtIn = resolve(directory) === BUILT_IN_CATALOG;
    for (const name of globSync('**/*.yaml', { cwd: directory }).sort()) {
      const file = join(directory, name);
      const document = readYaml(file);
      const { value, hasOneVersion } = withDefaults(document.value, drivers);
      const model = Value.Default(CatalogFile, value);
      // Without a list of versions, the fields of the only one are beside the others.
      const inFile = (path: readonly string[]) =>
        hasOneVersion && path[0] === 'versions' && path[1] === '0' ? path.slice(2) : path;
      const locate = (path: readonly string[]) => document.locate(inFile(path));
      const found = [...document.problems];
      if (found.length === 0) {
        found.push(...problemsOf(CatalogFile, model, locate));
        found.push(...engineProblemsOf(model, { drivers, locate }));
      }
      if (found.length === 0) {
        checkRules(model as CatalogFile, { drivers, builtIn }, (path, text) => {
          const names = path.map(String);
          found.push(`${locate(names)}: ${names.map(snake).join('.')}: ${text}`);
        });
      }
      const shown = hasOneVersion ? found.map((problem) => problem.replace(': versions.0.', ': ')) : found;
      problems.push(...inOrderOfLines(file, shown));
      if (found.length > 0) continue;
      const entry = toEntry(model as CatalogFile);
      // A later directory may replace a built-in model; within one directory a slug is described once.
      const other = seen.get(entry.slug);
      if (other !== undefined)
        problems.push(`${document.locate(['slug'])}: slug: ${entry.slug} is described in ${other} already`);
      seen.set(entry.slug, name);
      entries.set(entry.slug, entry);
    }
  }
  if (problems.length > 0) throw new CatalogError(problems.join('\n'));
  return [...entries.values()].sort((left, right) => (left.slug < right.slug ? -1 : 1));
}
