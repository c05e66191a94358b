import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { KINDS } from '../packages/core/src/errors/kinds.ts';
import { SETTINGS } from '../packages/server/src/config/settings.ts';

const DEPLOY = join(import.meta.dirname, '../deploy');
const read = (path: string) => readFileSync(join(DEPLOY, path), 'utf8');

interface Compose {
  services: Record<string, { environment?: Record<string, string>; depends_on?: object; volumes?: string[] }>;
  volumes: Record<string, null>;
}

describe('the files in deploy/', () => {
  it('name only variables that exist', () => {
    const known = new Set(['BAOBAB_CONFIG', ...SETTINGS.map(({ variable }) => variable)]);
    const files = globSync('**/*', { cwd: DEPLOY, withFileTypes: true }).filter((entry) => entry.isFile());
    const named = files.flatMap((entry) => {
      const text = readFileSync(join(entry.parentPath, entry.name), 'utf8');
      return [...text.matchAll(/\bBAOBAB_[A-Z0-9_]+/g)].map(([variable]) => `${entry.name}: ${variable}`);
    });
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((each) => !known.has(each.replace(/^.*: /, '')))).toEqual([]);
  });

  it('read only metrics that the service has', () => {
    // A test compares this page with what a server says.
    const page = read('../docs/operating.md');
    const { panels } = JSON.parse(read('helm/baobab/files/dashboard.json')) as {
      panels: { title: string; targets: { expr: string }[] }[];
    };
    const { groups } = parse(read('helm/baobab/files/alerts.yaml')) as { groups: { rules: { expr: string }[] }[] };
    const expressions = [...panels.flatMap(({ targets }) => targets), ...groups.flatMap(({ rules }) => rules)];
    const names = expressions.flatMap(({ expr }) => expr.match(/baobab_[a-z0-9_]+/g) ?? []);
    expect(names.length).toBeGreaterThan(16);
    const base = (name: string) => name.replace(/_bucket$/, '');
    // prom-client's own metrics get the prefix.
    const missing = names.filter((name) => !name.startsWith('baobab_nodejs_') && !page.includes(`\`${base(name)}\``));
    expect(missing).toEqual([]);
    const codes = expressions.flatMap(({ expr }) =>
      [...expr.matchAll(/code=~?"([^"]+)"/g)].flatMap(([, list]) => list?.split('|')),
    );
    expect(codes.filter((code) => !Object.hasOwn(KINDS, String(code)))).toEqual([]);
  });

  it('of the chart have the version of package.json', () => {
    const { version } = JSON.parse(read('../package.json'));
    expect(parse(read('helm/baobab/Chart.yaml'))).toMatchObject({ version, appVersion: version });
  });

  it('of compose have every service and volume that they refer to', () => {
    const { services, volumes } = parse(read('compose/compose.yaml'), { merge: true }) as Compose;
    for (const [name, service] of Object.entries(services)) {
      const needed = Array.isArray(service.depends_on) ? service.depends_on : Object.keys(service.depends_on ?? {});
      for (const other of needed) expect(services, `${name} depends on ${other}`).toHaveProperty(other);
      for (const volume of service.volumes ?? []) {
        const [source = ''] = volume.split(':');
        if (!source.startsWith('.')) expect(volumes, `volume of ${name}`).toHaveProperty([source]);
      }
    }
    const variables = [...read('compose/compose.yaml').matchAll(/\$\{([A-Z0-9_]+)/g)].map(([, name]) => name);
    for (const name of new Set(variables)) expect(read('compose/example.env')).toContain(`\n${name}=`);
  });
});
