/** The parent's side of `paced-client.ts`. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { PacedAnswers, PacedLoad } from './paced-client.ts';

/** Memory for the garbage of a whole measurement. It is collected before the next one. */
const FLAGS = ['--min-semi-space-size=64', '--max-semi-space-size=64', '--no-memory-reducer', '--expose-gc'];

export interface PacedLoads extends Disposable {
  /** Sends evenly spaced requests, whether or not earlier ones are answered, and returns their latencies. */
  send(load: PacedLoad): Promise<PacedAnswers>;
}

/**
 * Runs in its own process: garbage collection in the sender delays requests and then sends them all at once, which would count against
 * the server under test.
 */
export function startPacedLoads(): PacedLoads {
  const client = fork(join(import.meta.dirname, 'paced-client.ts'), { execArgv: FLAGS, serialization: 'advanced' });
  const exited = once(client, 'exit');
  return {
    async send(load) {
      const answered = once(client, 'message') as Promise<[PacedAnswers]>;
      client.send(load);
      const failed = exited.then(() => Promise.reject(new Error(`the load on ${load.url} failed`)));
      const [answers] = await Promise.race([answered, failed]);
      return answers;
    },
    [Symbol.dispose]: () => client.disconnect(),
  };
}
