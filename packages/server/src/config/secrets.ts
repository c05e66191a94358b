import { snake } from '../validation/names.ts';
import { isSecret } from './secret-files.ts';
import { SETTINGS } from './settings.ts';

/** Secret settings by their last name. Those of upstreams are in a list and not among `SETTINGS`. */
const SECRET_NAMES: ReadonlySet<string> = new Set([
  'apiKey',
  ...SETTINGS.filter(({ schema }) => isSecret(schema)).map(({ path }) => path.at(-1) ?? ''),
]);

const passwordsIn = (text: string): string[] => [...(/(?<=:\/\/[^/@:]*:)[^/@]+(?=@)/.exec(text) ?? [])];

/** The secret, and the password in it if it is an address. */
export const partsOfSecret = (secret: string): string[] => [secret, ...passwordsIn(secret)];

/** The values of all secret settings, and passwords in addresses. */
export function secretsOf(config: unknown, name = ''): string[] {
  if (typeof config === 'string') return SECRET_NAMES.has(name) ? partsOfSecret(config) : passwordsIn(config);
  if (typeof config !== 'object' || config === null) return [];
  return Object.entries(config).flatMap(([key, value]) => secretsOf(value, Array.isArray(config) ? name : key));
}

const MASK = '********';

/** Keys as in the file. Hides secrets, also the user and password in an address. */
function masked(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((item) => masked(item, name));
  if (SECRET_NAMES.has(name) && value !== undefined) return MASK;
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [snake(key), masked(child, key)]));
  }
  return typeof value === 'string' ? value.replace(/(?<=:\/\/)[^/@]+(?=@)/, MASK) : value;
}

/** The settings as in the file, without their secrets. */
export const maskedConfig = (config: object): Record<string, unknown> => masked(config) as Record<string, unknown>;
