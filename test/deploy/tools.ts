import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, copyFileSync, existsSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Skipped } from './check.ts';
import { buildGoTool, CACHE, type GO_TOOLS } from './go-tools.mjs';

export interface Outcome {
  code: number | null;
  stdout: string;
  stderr: string;
}

export async function run(program: string, args: readonly string[], options: SpawnOptions = {}): Promise<Outcome> {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const exit = once(child, 'exit');
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout as never), text(child.stderr as never), exit]);
  return { code, stdout, stderr };
}

/** Its standard output. */
export async function succeed(program: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(program, args, options);
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}\n${stdout}${stderr}`);
  return stdout;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The path of an installed program. Debian has daemons in /usr/sbin, which is not in every PATH. */
export function installed(name: string, debianPackage = name): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  const found = folders.map((folder) => join(folder, name)).find(isExecutable);
  if (found === undefined) throw new Skipped(`there is no ${name} (Debian: apt install ${debianPackage})`);
  return found;
}

const onPath = (name: string): string | undefined => {
  try {
    return installed(name);
  } catch {
    return undefined;
  }
};

/** The path of a program of a Debian package whose other programs are not wanted. It is downloaded once and kept; the package is not installed. */
export async function unpacked(name: string, debianPackage: string): Promise<string> {
  const already = onPath(name);
  if (already !== undefined) return already;
  const folder = join(CACHE, `${name}-debian`);
  const path = join(folder, name);
  if (existsSync(path)) return path;
  if (onPath('apt-get') === undefined) throw new Skipped(`there is no ${name} (Debian: apt install ${debianPackage})`);
  const stage = mkdtempSync(join(tmpdir(), `baobab-${name}-`));
  try {
    const { code, stderr } = await run('apt-get', ['download', '-qq', debianPackage], { cwd: stage });
    if (code !== 0) throw new Skipped(`${debianPackage} cannot be downloaded: ${stderr.trim().split('\n').at(-1)}`);
    const [file = ''] = globSync('*.deb', { cwd: stage });
    await succeed('dpkg', ['--extract', join(stage, file), join(stage, 'files')]);
    mkdirSync(folder, { recursive: true });
    copyFileSync(join(stage, 'files/usr/bin', name), path);
  } finally {
    rmSync(stage, { recursive: true });
  }
  return path;
}

/** The path of a tool written in Go, which is built once and kept. */
export function goTool(name: keyof typeof GO_TOOLS): string {
  const { path, missing } = buildGoTool(name);
  if (missing !== undefined) throw new Skipped(missing);
  return path;
}
