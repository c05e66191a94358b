import { bytes } from '../../format/numbers.ts';
import { duration } from '../../format/times.ts';

export interface Setting {
  /** Dotted path, as in baobab.yaml. */
  name: string;
  value: string;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export interface SettingGroup {
  /** The first part of the paths in it, empty for settings without a group. */
  name: string;
  settings: Setting[];
}

/** Settings by the first part of their paths, those without a group first. */
export function grouped(settings: readonly Setting[]): SettingGroup[] {
  const groups = new Map<string, Setting[]>([['', []]]);
  for (const setting of settings) {
    const [first = ''] = setting.name.split(/[.[]/, 1);
    const group = first === setting.name ? '' : first;
    groups.set(group, [...(groups.get(group) ?? []), setting]);
  }
  return [...groups].filter(([, each]) => each.length > 0).map(([name, each]) => ({ name, settings: each }));
}

/** A number of bytes or milliseconds as people read it. */
export function readable({ name, value }: Setting): string | undefined {
  const number = Number(value);
  if (!Number.isFinite(number) || number < 1000) return undefined;
  if (name.endsWith('_bytes')) return bytes(number);
  return name.endsWith('_ms') ? duration(number) : undefined;
}

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
