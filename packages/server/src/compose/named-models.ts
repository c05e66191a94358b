import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { ConfigError, type ResolvedConfig } from '../config/load.ts';

function isKnown(name: string, entries: readonly ModelEntry[]): boolean {
  const reference = parseReference(name);
  const entry = entries.find(({ slug }) => slug === reference?.slug);
  return entry?.versions.some(({ version }) => version === (reference?.version ?? entry.recommended)) ?? false;
}

/** A misspelt slug would otherwise silently leave a model cold, without its upstream or without its alias. */
export function checkNamedModels(
  { models, upstreams, aliases }: Pick<ResolvedConfig, 'models' | 'upstreams' | 'aliases'>,
  entries: readonly ModelEntry[],
  locate: (path: readonly string[]) => string,
): void {
  const named = [
    ...models.warm.map((name, index) => ({ name, path: ['models', 'warm', `${index}`] })),
    ...upstreams.map(({ model }, index) => ({ name: model, path: ['upstreams', `${index}`, 'model'] })),
    ...aliases.map(({ model }, index) => ({ name: model, path: ['aliases', `${index}`, 'model'] })),
  ];
  const report = (path: readonly string[], text: string) => `${locate(path)}: ${path.join('.')}: ${text}`;
  const problems = named
    .filter(({ name }) => !isKnown(name, entries))
    .map(({ name, path }) =>
      report(
        path,
        `there is no model '${name}' in the catalog; ` +
          "'baobab models list' shows those that are, and catalog_dir adds others",
      ),
    );
  for (const [index, { name }] of aliases.entries()) {
    const path = ['aliases', `${index}`, 'name'];
    if (entries.some(({ slug }) => slug === name)) problems.push(report(path, `'${name}' is a model of the catalog`));
    if (aliases.findIndex((each) => each.name === name) < index)
      problems.push(report(path, `'${name}' is there twice`));
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
}
