import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, copyFileSync, existsSync, globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Skipped } from './check.ts';

/** What is downloaded or built once. .ci/run uses it too. */
export const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'baobab');

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

interface GoTool {
  /** Its package, without a version. */
  from: string;
  version: string;
}

const GO_TOOLS = {
  /** Reads files with the library of Docker Compose. */
  'compose-go': { from: 'github.com/compose-spec/compose-go/v2/cmd', version: 'v2.16.2' },
  kubeconform: { from: 'github.com/yannh/kubeconform/cmd/kubeconform', version: 'v0.8.0' },
  helm: { from: 'helm.sh/helm/v3/cmd/helm', version: 'v3.22.0' },
} as const satisfies Record<string, GoTool>;

/** The path of a tool, which is built once and kept. */
export async function goTool(name: keyof typeof GO_TOOLS): Promise<string> {
  const { from, version } = GO_TOOLS[name];
  const folder = join(CACHE, `${name}-${version}`);
  const path = join(folder, basename(from));
  if (existsSync(path)) return path;
  const go = onPath('go');
  if (go === undefined) throw new Skipped(`there is no ${name} ${version} in ${folder}, and no Go to build it with`);
  const { code, stderr } = await run(go, ['install', '-ldflags=-s -w', `${from}@${version}`], {
    env: { ...process.env, GOBIN: folder },
  });
  if (code !== 0) throw new Skipped(`${name} ${version} could not be built: ${stderr.trim().split('\n').at(-1)}`);
  return path;
}
