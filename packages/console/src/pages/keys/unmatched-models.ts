import { may } from '@baobab/core/domain/operations.ts';
import { matchesPattern } from '@baobab/core/domain/slug.ts';
import { useEffect, useState } from 'preact/hooks';
import { useCatalog } from '../../api/queries.ts';
import { useSession } from '../../api/session.ts';

const TYPING_MS = 500;

/** Patterns that match no model of this server, a moment after the last letter was typed. */
export function useUnmatchedModels(patterns: readonly string[]): string[] {
  const models = useCatalog(may(useSession(), 'models.list'));
  const text = patterns.join('\n');
  const [typed, setTyped] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setTyped(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  if (models.data === undefined || typed !== text) return [];
  const slugs = models.data.data.map(({ id }) => id);
  return patterns.filter((pattern) => !slugs.some((slug) => matchesPattern(slug, pattern)));
}
