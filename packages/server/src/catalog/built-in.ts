import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { moduleFolders } from '@baobab/core/runtime/package-folders.ts';

/** `packages/server` of a checkout, or the package of a release, which has the catalog in it. */
const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const IS_RELEASE = existsSync(join(PACKAGE, 'catalog'));

/** The folder with the built-in catalog and the `package.json` that says the version. */
export const INSTALLATION = resolve(IS_RELEASE ? PACKAGE : join(PACKAGE, '../..'));

export const BUILT_IN_CATALOG = join(INSTALLATION, 'catalog');

/**
 * Where weights of the built-in catalog are, such as `models/chat-mini/2026-11-18`. In a release each model is a package, here
 * `@baobab/chat-mini`, which may be missing.
 */
export function builtInWeights(path: string): { path: string; package?: string } {
  if (!IS_RELEASE) return { path: join(INSTALLATION, path) };
  const [, name = '', ...rest] = path.split('/');
  const places = moduleFolders(fileURLToPath(import.meta.url)).map((folder) => join(folder, '@baobab', name, ...rest));
  const place = places.find((each) => existsSync(each)) ?? join(INSTALLATION, path);
  return { path: place, package: `@baobab/${name}` };
}
