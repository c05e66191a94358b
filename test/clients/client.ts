import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Installer } from './install.ts';

const execute = promisify(execFile);
const TIMEOUT_MS = 600_000;

export interface ClientContext {
  /** Where the installers have put the programs. */
  installation: string;
  /** An empty folder. */
  directory: string;
  /** Base address without `/v1`. */
  address: string;
  apiKey: string;
  /** A key with the dialect `openai`. */
  openaiKey: string;
  model: string;
  embeddingModel: string;
  /** A model whose context is too small for what agents read. */
  smallModel: { name: string; refusals(): number };
}

export interface Client {
  name: string;
  install: Installer;
  /** What `run` asserts. */
  asserts: string;
  run(context: ClientContext): Promise<unknown>;
}

/** Runs a program to its end, and returns what it printed. Some believe PWD more than the system. */
export async function run(
  file: string,
  args: string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<string> {
  const child = execute(file, args, {
    cwd,
    env: { ...process.env, PWD: cwd, ...env },
    timeout: TIMEOUT_MS,
    maxBuffer: 2 ** 26,
  });
  child.child.stdin?.end();
  try {
    return (await child).stdout;
  } catch (error) {
    const { message, stdout = '', stderr = '' } = error as Error & { stdout?: string; stderr?: string };
    throw new Error(`${message.slice(0, 200)}\n${stdout.slice(-2000)}\n${stderr.slice(-2000)}`);
  }
}
