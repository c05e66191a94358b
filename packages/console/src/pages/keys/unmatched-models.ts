import { may } from '@baobab/core/domain/operations.ts';
import { matchesPattern } from '@baobab/core/domain/slug.ts';
import { useCatalog } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';
import { useSettled } from '../../components/settled.ts';

/** Patterns that match no model of this server, a moment after the last letter was typed. */
export function useUnmatchedModels(patterns: readonly string[]): string[] {
  const models = useCatalog(may(useSession(), 'models.list'));
  const text = patterns.join('\n');
  const typed = useSettled(text);
  if (models.data === undefined || typed !== text) return [];
  const slugs = models.data.data.map(({ id }) => id);
  return patterns.filter((pattern) => !slugs.some((slug) => matchesPattern(slug, pattern)));
}
