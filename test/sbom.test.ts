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
