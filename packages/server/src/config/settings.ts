import { IsArray, IsBoolean, IsInteger, IsObject, IsUnion, type TSchema } from 'typebox';
import { camelKeys, snake } from '../validation/names.ts';
import { ConfigSchema } from './schema.ts';

/** One leaf of the schema and its three names. */
export interface Setting {
  path: readonly string[];
  schema: TSchema;
  /** `files.max_bytes` */
  key: string;
  /** `BAOBAB_FILES_MAX_BYTES` */
  variable: string;
  /** `--files-max-bytes` */
  flag: string;
}

function leaves(schema: TSchema, path: readonly string[]): Setting[] {
  if (IsObject(schema)) {
    return Object.entries(schema.properties).flatMap(([name, child]) => leaves(child, [...path, name]));
  }
  const names = path.map(snake);
  return [
    {
      path,
      schema,
      key: names.join('.'),
      variable: `BAOBAB_${names.join('_').toUpperCase()}`,
      flag: `--${names.join('-').replaceAll('_', '-')}`,
    },
  ];
}

export const SETTINGS: readonly Setting[] = leaves(ConfigSchema, []);

/** Converts text to the type of the schema. Text that does not fit stays as it is and fails validation. */
export function parseText(schema: TSchema, text: string): unknown {
  if (IsUnion(schema)) return parseText(schema.anyOf.find((each) => parseText(each, text) !== text) ?? {}, text);
  if (IsInteger(schema)) return /^-?\d+$/.test(text) ? Number(text) : text;
  if (IsBoolean(schema))
    return text === 'true' || text === '1' ? true : text === 'false' || text === '0' ? false : text;
  if (IsArray(schema)) {
    if (text.trim().startsWith('[')) {
      try {
        return camelKeys(JSON.parse(text));
      } catch {
        return text;
      }
    }
    return text
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
  }
  return text;
}
