import { matchesPattern } from '@baobab/core/domain/slug.ts';
import { nearestSlug } from '@baobab/core/runtime/nearest.ts';
import type { OpenCatalog } from '../compose/administration.ts';

/** A remark for each pattern that matches no model. The model may be added later, so this is not an error. */
export async function unmatchedModels(
  patterns: readonly string[],
  openCatalog: () => Promise<OpenCatalog>,
): Promise<string[]> {
  if (patterns.length === 0) return [];
  // A catalog that cannot be read is no reason to fail: the key is stored.
  const opened = await openCatalog().catch(() => undefined);
  if (opened === undefined) return [];
  const slugs = opened.entries.map(({ slug }) => slug);
  return patterns
    .filter((pattern) => !slugs.some((slug) => matchesPattern(slug, pattern)))
    .map((pattern) => {
      // Patterns are compared with slugs, which have no version.
      const meant = nearestSlug(pattern.split('@', 1)[0] as string, slugs);
      const hint = meant === undefined ? "'baobab models list' shows them" : `did you mean '${meant}'?`;
      return `warning: no model matches '${pattern}'; ${hint}`;
    });
}
