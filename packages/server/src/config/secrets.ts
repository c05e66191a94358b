import { isSecret } from './secret-files.ts';
import { SETTINGS } from './settings.ts';

/** Secret settings by their last name. Those of upstreams are in a list and not among `SETTINGS`. */
export const SECRET_NAMES: ReadonlySet<string> = new Set([
  'apiKey',
  ...SETTINGS.filter(({ schema }) => isSecret(schema)).map(({ path }) => path.at(-1) ?? ''),
]);

/** The values of all secret settings, and passwords in addresses. */
export function secretsOf(config: unknown, name = ''): string[] {
  if (typeof config === 'string') {
    const passwords = /(?<=:\/\/[^/@:]*:)[^/@]+(?=@)/.exec(config) ?? [];
    return SECRET_NAMES.has(name) ? [config, ...passwords] : [...passwords];
  }
  if (typeof config !== 'object' || config === null) return [];
  return Object.entries(config).flatMap(([key, value]) => secretsOf(value, Array.isArray(config) ? name : key));
}
