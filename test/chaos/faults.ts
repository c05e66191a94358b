import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster/cluster.ts';
import type { Part } from './cluster/network.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export const FAULTS = [
  'kill',
  'redis',
  'postgres-fast',
  'postgres-immediate',
  'cut-redis',
  'cut-postgres',
  'cut-s3',
  'slow-s3',
] as const;
export type FaultKind = (typeof FAULTS)[number];

/** One fault, decided before it happens, so that a seed always gives the same list. */
export interface Fault {
  kind: FaultKind;
  replica: number;
  forMs: number;
  /** Until the next one starts. Shorter than `forMs`: they overlap. */
  thenMs: number;
}

export function planFaults(
  random: Random,
  { totalMs, kinds, replicas }: { totalMs: number; kinds: readonly FaultKind[]; replicas: number },
): Fault[] {
  const faults: Fault[] = [];
  for (let atMs = 0; atMs < totalMs; ) {
    const kind = random.pick(kinds);
    // Some cuts are longer than a lease of 15 s: others take over while the replica still runs.
    const forMs = kind.startsWith('cut') ? random.pick([1_000, 3_000, 8_000, 20_000]) : random.between(500, 6_000);
    const overlaps = random.next() < 0.3;
    const thenMs = overlaps ? random.between(200, 2_000) : forMs + random.between(2_000, 7_000);
    faults.push({ kind, replica: random.between(0, replicas - 1), forMs, thenMs });
    atMs += thenMs;
  }
  return faults;
}

const CUT_PARTS: Partial<Record<FaultKind, Part>> = {
  'cut-redis': 'redis',
  'cut-postgres': 'postgres',
  'cut-s3': 's3',
};
const S3_DELAY_MS = 400;

/** Runs one fault to its end. A part that is in trouble already is left alone. */
export function createFaults({ cluster, timeline }: { cluster: Cluster; timeline: Timeline }) {
  const busy = new Set<string>();

  async function exclusively(place: string, work: () => Promise<void>): Promise<void> {
    if (busy.has(place)) return;
    busy.add(place);
    await work().finally(() => busy.delete(place));
  }

  async function kill(replica: number, forMs: number): Promise<void> {
    const target = cluster.replicas[replica];
    if (target === undefined) return;
    const event = timeline.begin('kill', `kill -9 ${target.name}, start it after ${forMs} ms`);
    await target.kill();
    await sleep(forMs);
    await target.start();
    event.end();
  }

  async function restartRedis(forMs: number): Promise<void> {
    const event = timeline.begin('redis', `stop Redis for ${forMs} ms`);
    await cluster.redis.kill();
    await sleep(forMs);
    await cluster.redis.start();
    event.end();
  }

  async function restartPostgres(kind: FaultKind, forMs: number): Promise<void> {
    const isFast = kind === 'postgres-fast';
    const event = timeline.begin(kind, `${isFast ? 'fast' : 'immediate'} shutdown of PostgreSQL for ${forMs} ms`);
    await cluster.postgres.halt(isFast ? 'SIGINT' : 'SIGQUIT');
    await sleep(forMs);
    await cluster.postgres.start();
    event.end();
  }

  async function cut(kind: FaultKind, replica: number, part: Part, forMs: number): Promise<void> {
    const event = timeline.begin(kind, `cut replica-${replica + 1} from ${part} for ${forMs} ms`);
    cluster.setCut(replica, part, true);
    await sleep(forMs);
    cluster.setCut(replica, part, false);
    event.end();
  }

  async function slowS3(forMs: number): Promise<void> {
    const event = timeline.begin('slow-s3', `S3 answers ${S3_DELAY_MS} ms later for ${forMs} ms`);
    cluster.slow('s3', S3_DELAY_MS);
    await sleep(forMs);
    cluster.slow('s3', 0);
    event.end();
  }

  return async ({ kind, replica, forMs }: Fault): Promise<void> => {
    const part = CUT_PARTS[kind];
    if (part !== undefined) return exclusively(`${replica} ${part}`, () => cut(kind, replica, part, forMs));
    if (kind === 'kill') return exclusively(`replica ${replica}`, () => kill(replica, forMs));
    if (kind === 'redis') return exclusively('redis', () => restartRedis(forMs));
    if (kind === 'slow-s3') return exclusively('s3', () => slowS3(forMs));
    return exclusively('postgres', () => restartPostgres(kind, forMs));
  };
}
