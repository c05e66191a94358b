import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { SERVE_FLAGS } from '../../bin/serve-flags.mjs';

const ROOT = join(import.meta.dirname, '../..');
const START_TIMEOUT_MS = 120_000;
/** All that change what V8 does. To copy Node's machine code to large pages takes 70 ms of a core at each start: the tests of the launcher do it. */
const FLAGS = SERVE_FLAGS.filter((flag) => !flag.startsWith('--use-largepages'));

export const API_KEY = 'acceptance-key-0123456789';

export interface StartOptions {
  /** A directory that outlives the server; a fresh one otherwise. */
  dataDir?: string;
  env?: Record<string, string>;
  args?: readonly string[];
  nodeFlags?: readonly string[];
}

export interface RunningServer extends AsyncDisposable {
  /** `http://127.0.0.1:…` */
  address: string;
  apiKey: string;
  dataDir: string;
  process: ChildProcess;
  /** Everything it has printed so far, both streams. */
  output(): string;
  /** Ends it the way an operator does, and waits. */
  stop(): Promise<void>;
  /** `kill -9`, and waits. */
  kill(): Promise<void>;
}

/** The weights of the product's own store, fetched once and kept between runs. */
export const MODELS_DIR = process.env.BAOBAB_MODELS_DIR ?? join(homedir(), '.cache/baobab/models');

/** Starts the real service as a process of its own on a free port; tests talk to it over HTTP only. */
export async function startServer(options: StartOptions = {}): Promise<RunningServer> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'baobab-test-')));
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BAOBAB_'));
  const flags = [...FLAGS, ...(options.nodeFlags ?? [])];
  const serve = [...flags, join(ROOT, 'packages/server/src/main.ts'), 'serve', '--port', '0'];
  const child = spawn(process.execPath, [...serve, ...(options.args ?? [])], {
    cwd: dataDir,
    env: {
      ...Object.fromEntries(inherited),
      BAOBAB_FIRST_KEY: API_KEY,
      BAOBAB_DATA_DIR: dataDir,
      BAOBAB_MODELS_DIR: MODELS_DIR,
      ...options.env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const printed: string[] = [];
  const output = () => printed.join('');
  const exited = once(child, 'exit');
  /** Later than the exit: everything that it printed has been read. */
  const closed = once(child, 'close');
  const address = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the server did not start:\n${output()}`)), START_TIMEOUT_MS);
    let isListening = false;
    const read = (chunk: Buffer) => {
      printed.push(chunk.toString());
      // Searching all of a long log for every new line would take the cores that a benchmark measures.
      if (isListening) return;
      const found = /Baobab serves on (http:\/\/\S+)/.exec(output())?.[1];
      if (found === undefined) return;
      isListening = true;
      clearTimeout(timer);
      resolve(found);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('close', (code) => {
      clearTimeout(timer);
      reject(new Error(`the server ended with ${code} before it listened:\n${output()}`));
    });
  });

  const signal = (name: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(name);
  };
  const stop = async () => {
    signal('SIGTERM');
    await closed;
  };
  return {
    address,
    apiKey: options.env?.BAOBAB_FIRST_KEY ?? API_KEY,
    dataDir,
    process: child,
    output,
    stop,
    async kill() {
      signal('SIGKILL');
      await exited;
    },
    async [Symbol.asyncDispose]() {
      await stop();
      if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
    },
  };
}
