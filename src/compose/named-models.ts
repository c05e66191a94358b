import { ConfigError, type ResolvedConfig } from '../config/load.ts';
import type { ModelEntry } from '../domain/model.ts';
import { parseReference } from '../domain/slug.ts';

function isKnown(name: string, entries: readonly ModelEntry[]): boolean {
  const reference = parseReference(name);
  const entry = entries.find(({ slug }) => slug === reference?.slug);
  return entry?.versions.some(({ version }) => version === (reference?.version ?? entry.recommended)) ?? false;
}

/** A misspelt slug would otherwise silently leave a model cold or without its upstream. */
export function checkNamedModels(
  { models, upstreams }: Pick<ResolvedConfig, 'models' | 'upstreams'>,
  entries: readonly ModelEntry[],
  locate: (path: readonly string[]) => string,
): void {
  const named = [
    ...models.warm.map((name, index) => ({ name, path: ['models', 'warm', `${index}`] })),
    ...upstreams.map(({ model }, index) => ({ name: model, path: ['upstreams', `${index}`, 'model'] })),
  ];
  const problems = named
    .filter(({ name }) => !isKnown(name, entries))
    .map(
      ({ name, path }) =>
        `${locate(path)}: ${path.join('.')}: there is no model '${name}' in the catalog; ` +
        "'baobab models list' shows those that are, and catalog_dir adds others",
    );
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
}
