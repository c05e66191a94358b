/** Tar files that have the same bytes whenever they are made of the same files: sorted, and with times and owners of our choice. */
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { Header, Pax } from 'tar';

/** Of every file in an archive. npm uses the same. */
export const FILE_TIME = new Date('1985-10-26T08:15:00Z');

export interface Owned {
  mode: number;
  /** User and group. */
  owner: number;
}

const BLOCK_BYTES = 512;

function* headOf(entry: ConstructorParameters<typeof Header>[0] & object): Generator<Buffer> {
  const header = new Header({ ...entry, mtime: FILE_TIME });
  // True: a name is too long for a header, and goes before it.
  if (header.encode()) yield new Pax({ ...entry, mtime: FILE_TIME }).encode();
  yield header.block as Buffer;
}

/**
 * All below `folder`, with the permissions of an umask of 022. They belong to root, except for those that `owned` names by their paths.
 */
export async function* tarOf(folder: string, owned: Record<string, Owned> = {}): AsyncGenerator<Buffer> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const path of entries.map((entry) => relative(folder, join(entry.parentPath, entry.name))).toSorted()) {
    const source = join(folder, path);
    const stat = await lstat(source);
    const { owner, mode } = owned[path] ?? {
      owner: 0,
      mode: stat.isSymbolicLink() ? 0o777 : stat.isDirectory() || stat.mode & 0o100 ? 0o755 : 0o644,
    };
    const common = { mode, uid: owner, gid: owner, uname: '', gname: '' };
    if (stat.isDirectory()) yield* headOf({ ...common, path: `${path}/`, type: 'Directory', size: 0 });
    else if (stat.isSymbolicLink())
      yield* headOf({ ...common, path, type: 'SymbolicLink', linkpath: await readlink(source), size: 0 });
    else {
      yield* headOf({ ...common, path, type: 'File', size: stat.size });
      yield* createReadStream(source) as AsyncIterable<Buffer>;
      yield Buffer.alloc((BLOCK_BYTES - (stat.size % BLOCK_BYTES)) % BLOCK_BYTES);
    }
  }
  yield Buffer.alloc(2 * BLOCK_BYTES);
}

export async function removeEmptyFolders(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    await removeEmptyFolders(path);
    if ((await readdir(path)).length === 0) await rm(path, { recursive: true });
  }
}
