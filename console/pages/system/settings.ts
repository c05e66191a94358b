export interface Setting {
  /** Dotted path, as in baobab.yaml. */
  name: string;
  value: string;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** One row for each setting. Lists of plain values stay on one line. */
export function flatten(value: unknown, path = ''): Setting[] {
  if (isRecord(value)) {
    return Object.entries(value).flatMap(([name, inner]) => flatten(inner, path === '' ? name : `${path}.${name}`));
  }
  if (Array.isArray(value) && value.some((item) => typeof item === 'object')) {
    return value.flatMap((item, index) => flatten(item, `${path}[${index}]`));
  }
  return [{ name: path, value: Array.isArray(value) ? value.join(', ') || '[]' : String(value ?? '–') }];
}
