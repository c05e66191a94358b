import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { askEngines } from './client.ts';
import { userId } from './socket.ts';

/** One small file for each server of this user: its data directory. It helps commands that look at another one. */
const defaultFolder = (): string => join(tmpdir(), `baobab-${userId()}`, 'servers');

const fileOf = (folder: string, dataDir: string): string =>
  join(folder, createHash('sha256').update(dataDir).digest('hex').slice(0, 16));

/** Returns a function that removes the entry. A failure does not matter: only a hint gets lost. */
export async function announceServer(dataDir: string, folder = defaultFolder()): Promise<() => Promise<void>> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(fileOf(folder, dataDir), dataDir, { mode: 0o600 });
  } catch {
    return async () => {};
  }
  return () => rm(fileOf(folder, dataDir), { force: true }).catch(() => {});
}

async function answers(dataDir: string): Promise<boolean> {
  try {
    return (await askEngines(dataDir)) !== undefined;
  } catch {
    return false;
  }
}

/** The data directories of servers that this user runs on this machine. Entries of servers that were killed are skipped. */
export async function runningServers(folder = defaultFolder()): Promise<string[]> {
  try {
    // Every user may write to the folder for temporary files.
    if ((await lstat(folder)).uid !== userId()) return [];
    const names = await readdir(folder);
    const directories = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
    const running = await Promise.all(directories.map(async (each) => ((await answers(each)) ? [each] : [])));
    return running.flat().sort();
  } catch {
    return [];
  }
}
