import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

function* foldersAbove(path: string): Generator<string> {
  for (let at = dirname(path); ; at = dirname(at)) {
    yield at;
    if (dirname(at) === at) return;
  }
}

/** A file that Node's permission model hides from this process does not exist for it. */
function exists(path: string): boolean {
  try {
    return existsSync(path);
  } catch {
    return false;
  }
}

/** The folder of the package that a file belongs to; its own folder if it belongs to none. */
export const packageFolder = (file: string): string =>
  foldersAbove(file).find((folder) => exists(join(folder, 'package.json'))) ?? dirname(file);

/** Where Node looks for the packages that a file imports: beside it and in every folder above. */
export const moduleFolders = (file: string): string[] =>
  [...foldersAbove(file)].map((folder) => join(folder, 'node_modules')).filter((folder) => exists(folder));
