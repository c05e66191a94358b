import { isCalendarDate } from './time/dates.ts';

const SLUG = /^[a-z0-9][a-z0-9._-]*\/[a-z0-9][a-z0-9._-]*$/;

export interface ModelReference {
  slug: string;
  /** Undefined: the recommended version. */
  version: string | undefined;
}

export const isSlug = (text: string): boolean => text.length <= 200 && SLUG.test(text);

export const providerOf = (slug: string): string => slug.slice(0, slug.indexOf('/'));

/** Parses `<provider>/<name>[@YYYY-MM-DD]`. Undefined when the text has another form. */
export function parseReference(text: string): ModelReference | undefined {
  const at = text.indexOf('@');
  const slug = at === -1 ? text : text.slice(0, at);
  const version = at === -1 ? undefined : text.slice(at + 1);
  if (!isSlug(slug)) return undefined;
  if (version !== undefined && !isCalendarDate(version)) return undefined;
  return { slug, version };
}

/**
 * `*` matches any characters, also none. A pattern without it matches one slug. Written by hand, because a regular
 * expression with many stars could run for minutes.
 */
export function matchesPattern(slug: string, pattern: string): boolean {
  const [start = '', ...others] = pattern.split('*');
  const end = others.pop();
  if (end === undefined) return slug === pattern;
  const limit = slug.length - end.length;
  if (!slug.startsWith(start) || !slug.endsWith(end) || start.length > limit) return false;
  let place = start.length;
  for (const part of others) {
    const found = slug.indexOf(part, place);
    if (found === -1 || found + part.length > limit) return false;
    place = found + part.length;
  }
  return true;
}
