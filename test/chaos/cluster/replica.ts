import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ReplicaOptions {
  name: string;
  host: string;
  port: number;
  /** For the log, and for data if `dataDir` is not given. */
  directory: string;
  dataDir?: string | undefined;
  env: Record<string, string>;
  /** Settings that the code of other commits may not know. */
  newEnv: Record<string, string>;
  /** Words before the command, such as those that enter a network namespace. */
  prefix: readonly string[];
}

export interface Replica {
  readonly name: string;
  readonly address: string;
  /** Starts it and, as a supervisor does, starts it again until it serves. Uses the code in `root`. */
  start(root?: string): Promise<void>;
  /** `kill -9`. */
  kill(): Promise<void>;
  /** SIGTERM. Resolves with the milliseconds until it has ended. */
  stop(): Promise<number>;
  isReady(): Promise<boolean>;
  /** Ready, and nothing that it uses is away. */
  isWell(): Promise<boolean>;
}

const ROOT = join(import.meta.dirname, '../../..');
const RETRY_MS = 500;

export function createReplica(options: ReplicaOptions): Replica {
  const { name, host, port, directory, env, newEnv, prefix, dataDir = join(directory, name) } = options;
  const address = `http://${host}:${port}`;
  let log: WriteStream | undefined;
  let child: ChildProcess | undefined;
  let isWanted = false;

  async function launch(root: string): Promise<ChildProcess> {
    await mkdir(dataDir, { recursive: true });
    log ??= createWriteStream(join(directory, `${name}.log`), { flags: 'a' });
    const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('BAOBAB_'));
    const command = [...prefix, process.execPath, join(root, 'packages/server/src/main.ts'), 'serve'];
    const [program = '', ...args] = command;
    log.write(`${Math.round(performance.now())} ${JSON.stringify({ time: Date.now(), msg: 'process started' })}\n`);
    const started = spawn(program, args, {
      cwd: dataDir,
      env: {
        ...Object.fromEntries(inherited),
        ...env,
        ...(root === ROOT ? newEnv : {}),
        BAOBAB_HOST: host,
        BAOBAB_PORT: `${port}`,
        BAOBAB_DATA_DIR: dataDir,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // With the time at which they came: the clock of the replica may be wrong.
    for (const output of [started.stdout, started.stderr]) {
      createInterface({ input: output }).on('line', (line) => log?.write(`${Math.round(performance.now())} ${line}\n`));
    }
    return started;
  }

  const hasEnded = (of: ChildProcess) => of.exitCode !== null || of.signalCode !== null;
  const readiness = () => fetch(`${address}/readyz`, { signal: AbortSignal.timeout(1_000) });
  const isReady = async () => (await readiness().catch(() => undefined))?.status === 200;

  async function end(signal: NodeJS.Signals): Promise<void> {
    isWanted = false;
    if (child === undefined || hasEnded(child)) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }
  process.once('exit', () => child?.kill('SIGKILL'));

  return {
    name,
    address,
    isReady,
    isWell: async () => ((await (await readiness()).json()) as { status: string }).status === 'ready',
    async start(root = ROOT) {
      isWanted = true;
      child = await launch(root);
      while (isWanted && !(await isReady())) {
        await sleep(RETRY_MS);
        if (isWanted && hasEnded(child)) child = await launch(root);
      }
    },
    kill: () => end('SIGKILL'),
    async stop() {
      const start = performance.now();
      await end('SIGTERM');
      return performance.now() - start;
    },
  };
}
