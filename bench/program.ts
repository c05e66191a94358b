import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A server under test in its own process. */
export interface Program extends AsyncDisposable {
  address: string;
  process: ChildProcess;
}

/** Starts a program and waits until it prints its address, unless that is known. `BENCH_LOG=ignore` in its environment drops its log. */
export async function startProgram(
  command: readonly string[],
  env: Record<string, string> = {},
  knownAddress?: string,
): Promise<Program> {
  const [file, ...args] = command;
  const child = spawn(file as string, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', env.BENCH_LOG === 'ignore' ? 'ignore' : 'inherit'],
  });
  const exited = once(child, 'exit');
  const address = await new Promise<string>((resolve, reject) => {
    if (knownAddress !== undefined) resolve(knownAddress);
    let output = '';
    let isListening = knownAddress !== undefined;
    child.stdout.on('data', (chunk: Buffer) => {
      if (isListening) return;
      output += chunk;
      const found = /(http:\/\/127\.0\.0\.1:\d+)/.exec(output)?.[1];
      if (found === undefined) return;
      isListening = true;
      resolve(found);
    });
    exited.then(() => reject(new Error(`${command.join(' ')} did not start:\n${output}`)));
  });
  return {
    address,
    process: child,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
