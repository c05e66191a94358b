import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { billOfMaterials } from '../scripts/sbom.ts';

const read = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, '..', name), 'utf8'));

it('lists every locked package that the service runs on, with version, licence and hash', () => {
  const product = read('package.json');
  const { components } = billOfMaterials(read('package-lock.json'), product);
  const names = components.map((component) => (component as { name: string }).name);
  const packages = ['core', 'engines', 'server', 'console'].map((name) => read(`packages/${name}/package.json`));
  const wanted = packages.flatMap(({ dependencies }) => Object.keys(dependencies));
  expect(names).toEqual(expect.arrayContaining(wanted.filter((name) => !name.startsWith('@baobab/'))));
  expect(names).not.toContain('vitest');
  expect(components).toContainEqual(
    expect.objectContaining({
      name: 'fastify',
      purl: expect.stringMatching(/^pkg:npm\/fastify@\d+\.\d+\.\d+$/),
      licenses: [{ license: { id: 'MIT' } }],
      hashes: [{ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) }],
    }),
  );
});

/** What a product under Apache-2.0 may ship. LGPL: as libraries of their own, which can be replaced. */
const LICENCES = [
  ...['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC-BY-3.0', 'CC0-1.0', 'ISC', 'MIT'],
  ...['LGPL-3.0-or-later', 'MPL-2.0'],
];

it('ships no package under another licence than these', () => {
  const { packages } = read('package-lock.json') as {
    packages: Record<string, { license?: string; dev?: boolean; link?: boolean }>;
  };
  // Our own empty package.
  const isOwn = (path: string) => !path.includes('node_modules/') || path.endsWith('/vendor/absent');
  const shipped = Object.entries(packages).filter(([path, { dev, link }]) => !isOwn(path) && !dev && !link);
  expect(shipped.length).toBeGreaterThan(300);
  // Of an expression with OR one part is enough, of one with AND all are needed.
  const isAllowed = (licence: string) =>
    licence
      .replace(/[()]/g, '')
      .split(' OR ')
      .some((choice) => choice.split(' AND ').every((each) => LICENCES.includes(each)));
  const others = shipped.filter(([, { license = 'none' }]) => !isAllowed(license));
  expect(others.map(([path, { license }]) => [path, license])).toEqual([]);
});

it('encodes scopes and writes licence expressions', () => {
  const packages = {
    '': {},
    'node_modules/@a/b': { version: '1.0.0', license: '(MIT OR Apache-2.0)', integrity: 'sha512-AAEC' },
    'node_modules/tool': { version: '2.0.0', dev: true },
  };
  expect(billOfMaterials({ packages }, { name: 'x', version: '1' }).components).toEqual([
    {
      type: 'library',
      'bom-ref': 'pkg:npm/%40a/b@1.0.0',
      name: '@a/b',
      version: '1.0.0',
      purl: 'pkg:npm/%40a/b@1.0.0',
      scope: 'required',
      licenses: [{ expression: '(MIT OR Apache-2.0)' }],
      hashes: [{ alg: 'SHA-512', content: '000102' }],
    },
  ]);
});
