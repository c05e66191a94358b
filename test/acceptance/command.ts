import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { MODELS_DIR } from './start-server.ts';

const MAIN = join(import.meta.dirname, '../../packages/server/src/main.ts');

export interface CommandResult {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** `baobab …` on a data directory, as an operator types it. */
export async function baobab(
  dataDir: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<CommandResult> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BAOBAB_'));
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: dataDir,
    env: { ...Object.fromEntries(inherited), BAOBAB_DATA_DIR: dataDir, BAOBAB_MODELS_DIR: MODELS_DIR, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [stdout, stderr, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { exitCode, stdout, stderr };
}

/** The same for commands that must succeed and answer JSON. */
export async function baobabJson<T>(dataDir: string, args: readonly string[]): Promise<T> {
  const { exitCode, stdout, stderr } = await baobab(dataDir, [...args, '--json']);
  if (exitCode !== 0) throw new Error(`baobab ${args.join(' ')} ended with ${exitCode}: ${stderr}`);
  return JSON.parse(stdout) as T;
}
