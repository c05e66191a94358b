import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCommand } from '../../packages/server/src/cli/run.ts';
import { MODELS_DIR } from './start-server.ts';

const MAIN = join(import.meta.dirname, '../../packages/server/src/main.ts');

export interface CommandResult {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** Commands that have run as a process. */
const started = new Set<string>();

/**
 * `baobab …` on a data directory, as an operator types it. Each command runs as a process once, which must end by itself, and later on in
 * this process, since every start takes most of a second of a core.
 */
export async function baobab(
  dataDir: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<CommandResult> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BAOBAB_'));
  const variables = {
    ...Object.fromEntries(inherited),
    BAOBAB_DATA_DIR: dataDir,
    BAOBAB_MODELS_DIR: MODELS_DIR,
    ...env,
  };
  const command = args.slice(0, 2).join(' ');
  // The S3 client reads its credentials from the variables of its process.
  const isKnown = started.has(command) && args[0] !== 'serve' && !('AWS_ACCESS_KEY_ID' in env);
  started.add(command);
  return isKnown ? runHere(args, dataDir, variables) : runProcess(args, dataDir, variables);
}

async function runProcess(args: readonly string[], cwd: string, env: Record<string, string>): Promise<CommandResult> {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [stdout, stderr, exitCode] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { exitCode, stdout, stderr };
}

async function runHere(args: readonly string[], cwd: string, env: Record<string, string>): Promise<CommandResult> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const run = async () => {
    const exitCode = await runCommand(args, { env, stdout, stderr, cwd: () => cwd }).catch((error: Error) => {
      stderr.write(error.stack ?? error.message);
      return 1;
    });
    stdout.end();
    stderr.end();
    return exitCode;
  };
  const [exitCode, ...printed] = await Promise.all([run(), text(stdout), text(stderr)]);
  return { exitCode, stdout: printed[0], stderr: printed[1] };
}

/** The same for commands that must succeed and answer JSON. */
export async function baobabJson<T>(dataDir: string, args: readonly string[]): Promise<T> {
  const { exitCode, stdout, stderr } = await baobab(dataDir, [...args, '--json']);
  if (exitCode !== 0) throw new Error(`baobab ${args.join(' ')} ended with ${exitCode}: ${stderr}`);
  return JSON.parse(stdout) as T;
}
