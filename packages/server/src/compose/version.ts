import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { INSTALLATION } from '../catalog/built-in.ts';

const read = (name: string) => readFileSync(join(INSTALLATION, name), 'utf8').trim();

/** A release writes its commit into `gitHead`. */
const manifest: { version: string; gitHead?: string } = JSON.parse(read('package.json'));

function checkedOutCommit(): string | null {
  try {
    const head = read('.git/HEAD');
    const found = head.startsWith('ref: ') ? read(`.git/${head.slice('ref: '.length)}`) : head;
    return /^[0-9a-f]{40,64}$/.test(found) ? found : null;
  } catch {
    return null;
  }
}

export const VERSION = manifest.version;

/** Of the code that runs. Null where neither a release nor a checkout says it. */
export const COMMIT: string | null = manifest.gitHead ?? checkedOutCommit();

/** `0.2.0 (1a2b3c4d)` */
export const versionText = (version: string, commit: string | null): string =>
  commit === null ? version : `${version} (${commit.slice(0, 8)})`;
