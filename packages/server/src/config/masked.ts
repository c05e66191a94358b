import { snake } from '../validation/names.ts';
import { SECRET_NAMES } from './secrets.ts';

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
