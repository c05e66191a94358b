import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TimelineEvent } from '../timeline.ts';

/** A time in which a replica enforced its share of every limit because Redis did not answer it. */
export interface AlonePeriod {
  replica: string;
  /** Among how many it divided each limit: those that Redis last knew. One that was away for long is not among them. */
  sharers: number;
  startMs: number;
  endMs: number;
}

const LOST = 'Redis does not answer';
/** Redis is back, or the replica was started again, which it may do without Redis. The last is a line of ours. */
const OVER = ['Redis answers again', 'process started'];
/** Replicas join a Redis that was restarted within this time. */
const REJOIN_MS = 5_000;

/**
 * Reads the periods from the log of a replica. Times are those of `performance.now()`, as in the timeline. Lines begin with when they
 * came, since a clock that is ahead writes later times.
 */
export function alonePeriods(replica: string, log: string): AlonePeriod[] {
  const periods: AlonePeriod[] = [];
  let lost: Pick<AlonePeriod, 'startMs' | 'sharers'> | undefined;
  for (const line of log.split('\n')) {
    if (!line.includes(LOST) && !OVER.some((text) => line.includes(text))) continue;
    const json = line.indexOf('{');
    const receivedMs = Number(line.slice(0, json));
    const {
      time,
      msg,
      replicas: sharers = Number.POSITIVE_INFINITY,
    } = JSON.parse(line.slice(json)) as { time: number; msg: string; replicas?: number };
    const atMs = Math.min(receivedMs, time - performance.timeOrigin);
    if (msg.startsWith(LOST)) lost ??= { startMs: atMs, sharers };
    else if (lost !== undefined) {
      periods.push({ replica, ...lost, endMs: atMs });
      lost = undefined;
    }
  }
  if (lost !== undefined) periods.push({ replica, ...lost, endMs: Number.POSITIVE_INFINITY });
  return periods;
}

export async function readAlonePeriods(directory: string, replicas: readonly string[]): Promise<AlonePeriod[]> {
  const read = replicas.map(async (name) => alonePeriods(name, await readFile(join(directory, `${name}.log`), 'utf8')));
  return (await Promise.all(read)).flat();
}

/** Redis lost what it knew, or was away for all. */
const isOfRedis = ({ kind }: TimelineEvent): boolean => kind.startsWith('redis');

/** True if all replicas lost Redis together, because it was stopped. */
const isOfRestart = ({ startMs, endMs }: AlonePeriod, event: TimelineEvent): boolean =>
  isOfRedis(event) && startMs >= event.startMs && endMs <= (event.endMs ?? endMs) + REJOIN_MS;

/** For a second or two after a failover, some replicas count at the new Redis and some at the earlier one. */
export const isOfFailover = (events: readonly TimelineEvent[], fromMs: number, toMs: number): boolean =>
  events.some((event) => isOfRedis(event) && event.startMs < toMs && (event.endMs ?? toMs) + REJOIN_MS > fromMs);

export interface Losses {
  /** How often Redis was stopped. */
  restarts: number;
  /** How often a replica lost Redis while others did not. */
  alone: number;
  /** For how long together. */
  aloneMinutes: number;
}

/** What happened between two moments. */
export function lossesBetween(
  { periods, events }: { periods: readonly AlonePeriod[]; events: readonly TimelineEvent[] },
  fromMs: number,
  toMs: number,
): Losses {
  const isWithin = ({ startMs, endMs = toMs }: { startMs: number; endMs: number | undefined }) =>
    startMs < toMs && endMs > fromMs;
  const alone = periods.filter((period) => isWithin(period) && !events.some((event) => isOfRestart(period, event)));
  const ms = alone.map(({ startMs, endMs }) => Math.min(toMs, endMs) - Math.max(fromMs, startMs));
  const restarts = events.filter(
    (event) => isOfRedis(event) && isWithin({ startMs: event.startMs, endMs: (event.endMs ?? toMs) + REJOIN_MS }),
  );
  return {
    restarts: restarts.length,
    alone: alone.length,
    aloneMinutes: ms.reduce((sum, each) => sum + each, 0) / 60_000,
  };
}

/** The shares of a limit of the replicas that were without Redis at some time between two moments, the largest first. */
export function sharesAlone(limit: number, periods: readonly AlonePeriod[], fromMs: number, toMs: number): number[] {
  const shares = new Map<string, number>();
  for (const { replica, sharers, startMs, endMs } of periods) {
    if (startMs > toMs || endMs < fromMs) continue;
    shares.set(replica, Math.max(1, Math.floor(limit / sharers), shares.get(replica) ?? 0));
  }
  return [...shares.values()].toSorted((left, right) => right - left);
}
