import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { moduleFolders, packageFolder } from './package-folders.ts';

it('finds the package of a file, and the folders in which Node looks for what it imports', async () => {
  await using root = await mkdtempDisposable(join(tmpdir(), 'baobab-package-'));
  const file = join(root.path, 'packages/core/src/main.ts');
  await mkdir(join(root.path, 'packages/core/src'), { recursive: true });
  await mkdir(join(root.path, 'node_modules'));
  expect(packageFolder(file)).toBe(join(root.path, 'packages/core/src'));
  await writeFile(join(root.path, 'packages/core/package.json'), '{}');
  expect(packageFolder(file)).toBe(join(root.path, 'packages/core'));
  expect(moduleFolders(file)[0]).toBe(join(root.path, 'node_modules'));
});
