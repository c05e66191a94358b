import { readFile } from 'node:fs/promises';
import { devNull } from 'node:os';
import { join } from 'node:path';
import type { Environment } from './npm-settings.ts';

export interface PipSettings {
  /** Asked in this order; may hold a user name and password. */
  indexUrls: readonly string[];
  proxy: string | undefined;
  /** Path of a PEM file. */
  cert: string | undefined;
}

const PUBLIC_INDEX = 'https://pypi.org/simple';
/** Sections of pip.conf that apply to a download; later ones win. */
const SECTIONS = ['global', 'download'];

/** The files pip reads on Linux and macOS, least important first. */
function configFiles(environment: Environment): string[] {
  const { HOME: home = '', PIP_CONFIG_FILE: named, VIRTUAL_ENV: site, XDG_CONFIG_HOME: xdgHome } = environment;
  if (named === devNull) return [];
  const shared = (environment.XDG_CONFIG_DIRS ?? '/etc/xdg').split(':').filter((directory) => directory !== '');
  return [
    ...shared.map((directory) => join(directory, 'pip/pip.conf')),
    '/etc/pip.conf',
    join(home, '.pip/pip.conf'),
    join(home, 'Library/Application Support/pip/pip.conf'),
    join(xdgHome ?? join(home, '.config'), 'pip/pip.conf'),
    ...(site === undefined ? [] : [join(site, 'pip.conf')]),
    ...(named === undefined ? [] : [named]),
  ];
}

/** The subset of Python's ini format that pip writes: sections, `key = value`, and values continued on indented lines. */
export function parsePipConfig(text: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  let key: string | undefined;
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const continued = /^\s+(.*?)\s*$/.exec(line);
    const header = /^\[(.+)\]\s*$/.exec(line);
    const assignment = /^([^=:]+?)\s*[=:]\s*(.*?)\s*$/.exec(line);
    if (continued !== null && key !== undefined) {
      section.set(key, `${section.get(key) ?? ''} ${continued[1]}`.trim());
    } else if (header !== null) {
      section = sections.get(header[1] ?? '') ?? new Map<string, string>();
      sections.set(header[1] ?? '', section);
      key = undefined;
    } else if (assignment !== null) {
      key = (assignment[1] ?? '').toLowerCase().replaceAll('_', '-');
      section.set(key, assignment[2] ?? '');
    }
  }
  return sections;
}

/** Index, proxy and certificates as pip finds them: pip.conf files, then PIP_* variables. */
export async function loadPipSettings(environment: Environment): Promise<PipSettings> {
  const values = new Map<string, string>();
  for (const file of configFiles(environment)) {
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const sections = parsePipConfig(text);
    for (const name of SECTIONS) for (const [key, value] of sections.get(name) ?? []) values.set(key, value);
  }
  const setting = (key: string): string | undefined => {
    const value = environment[`PIP_${key.toUpperCase().replaceAll('-', '_')}`] ?? values.get(key);
    return value === '' ? undefined : value;
  };
  const extra = setting('extra-index-url')?.split(/\s+/) ?? [];
  return {
    indexUrls: [setting('index-url') ?? PUBLIC_INDEX, ...extra],
    proxy: setting('proxy'),
    cert: setting('cert'),
  };
}
