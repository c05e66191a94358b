/** The parent's side of `load-client.ts`. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pinProcess } from './cores.ts';

interface Target {
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** A number of connections without pause. */
export interface ClosedJob extends Target {
  kind: 'closed';
  connections: number;
  seconds: number;
}

export interface ClosedResult {
  perSecond: number;
  /** Milliseconds. */
  latencies: number[];
}

/** Streams that start evenly spaced, each on a new connection, and health probes beside them. */
export interface StreamsJob extends Target {
  kind: 'streams';
  healthUrl: string;
  count: number;
  overMs: number;
}

export interface StreamsResult {
  /** Milliseconds until the first word of each stream, and until the answer of each probe. */
  firstWords: number[];
  probes: number[];
  /** From the first request to the end of the last stream. */
  seconds: number;
}

export type Job = ClosedJob | StreamsJob;

/** Memory for the garbage of a whole measurement. It is collected before the next one. */
const FLAGS = ['--min-semi-space-size=64', '--max-semi-space-size=64', '--no-memory-reducer', '--expose-gc'];

export interface Load extends Disposable {
  /** Connections are divided over the processes. */
  closed(job: Omit<ClosedJob, 'kind'>): Promise<ClosedResult>;
  streams(job: Omit<StreamsJob, 'kind'>): Promise<StreamsResult>;
}

export function startLoad(processes: number, cores: string): Load {
  const clients = Array.from({ length: processes }, () =>
    fork(join(import.meta.dirname, 'load-client.ts'), { execArgv: FLAGS, serialization: 'advanced' }),
  );
  for (const { pid } of clients) if (pid !== undefined) pinProcess(cores, pid);

  async function ask<T>(client: ChildProcess, job: Job): Promise<T> {
    const answered = once(client, 'message') as Promise<[{ result: T } | { problem: string }]>;
    client.send(job);
    const [answer] = await answered;
    if ('problem' in answer) throw new Error(`the load on ${job.url} failed: ${answer.problem}`);
    return answer.result;
  }

  return {
    async closed(job) {
      const used = clients.slice(0, job.connections);
      const connections = Math.ceil(job.connections / used.length);
      const results = await Promise.all(
        used.map((client) => ask<ClosedResult>(client, { ...job, kind: 'closed', connections })),
      );
      return {
        perSecond: results.reduce((sum, { perSecond }) => sum + perSecond, 0),
        latencies: results.flatMap(({ latencies }) => latencies),
      };
    },
    streams: (job) => ask(clients[0] as ChildProcess, { ...job, kind: 'streams' }),
    [Symbol.dispose]() {
      for (const client of clients) client.disconnect();
    },
  };
}
