import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { type Channel, createChannel, type Handlers } from './channel.ts';

export interface WorkerProcess {
  readonly pid: number | undefined;
  readonly channel: Channel;
  /** It has reported that it is ready, and waits. */
  readonly prepared: Promise<void>;
  /** With the address that it listens on. */
  readonly listening: Promise<string>;
  /** Why it ended, for a log line. */
  readonly exited: Promise<{ code: number | null; signal: string | null }>;
  mayListen(port: number): void;
  stop(): void;
}

/** The variable that tells a worker its number. */
export const WORKER_VARIABLE = '_BAOBAB_WORKER';

/** Starts this program again as a worker. */
export function startWorker(number: number, handlers: Handlers): WorkerProcess {
  const worker: Worker = cluster.fork({ [WORKER_VARIABLE]: `${number}` });
  const [prepared, listening, permission] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<string>(),
    Promise.withResolvers<number>(),
  ];
  // A worker may end before anything waits for it.
  for (const { promise } of [prepared, listening]) promise.catch(() => {});
  // Sending to a process that has just ended is not an error: its end is noticed.
  worker.on('error', () => {});
  const peer = {
    send: (message: object) => worker.isConnected() && worker.send(message, () => {}),
    on: (event: 'message', listener: (message: unknown) => void) => worker.on(event, listener),
  };
  const channel = createChannel(peer, {
    ...handlers,
    prepared: () => {
      prepared.resolve();
      return permission.promise;
    },
    listening: (address) => listening.resolve(String(address)),
  });
  const exited = once(worker, 'exit').then(([code, signal]) => {
    const ended = new Error(`worker ${number} ended before it was ready`);
    prepared.reject(ended);
    listening.reject(ended);
    channel.close();
    return { code: code as number | null, signal: signal as string | null };
  });
  return {
    pid: worker.process.pid,
    channel,
    prepared: prepared.promise,
    listening: listening.promise,
    exited,
    mayListen: permission.resolve,
    stop: () => void worker.process.kill('SIGTERM'),
  };
}
