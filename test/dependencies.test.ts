import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

it('gives every dependency a reason', () => {
  const manifests = ['package.json', ...globSync('packages/*/package.json', { cwd: ROOT })].map((path) =>
    JSON.parse(read(path)),
  );
  const listed = [...read('docs/dependencies.md').matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  const installed = manifests.flatMap(({ dependencies, devDependencies, optionalDependencies }) =>
    Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies }),
  );
  expect(installed.filter((name) => !name.startsWith('@baobab/') && !listed.includes(name))).toEqual([]);
});

it('records no download addresses in the lock file', () => {
  expect(read('package-lock.json')).not.toMatch(/"resolved": "https?:/);
});
