import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ProcessIdentity } from '@baobab/core/ports/process-identity.ts';
import type { ServerHeartbeat, ServerProblem, ServerRepository } from '@baobab/core/ports/servers.ts';
import type { StoreClock } from '../processes/store-clock.ts';

/** One that was not seen for this long is gone: three heartbeats. */
const GONE_MS = 15_000;
const FORGOTTEN_MS = 3_600_000;

export type Readiness = Pick<ServerHeartbeat, 'readiness' | 'problems'>;

interface ReadinessDependencies {
  /** Why the service cannot take requests; empty when it can. */
  unready(): Promise<string[]>;
  /** What works only in part, although requests are answered. */
  degraded(): string[];
  clock: Clock;
}

/** Says how the server is, and since when each of its problems is there. */
export function createReadiness({ unready, degraded, clock }: ReadinessDependencies): () => Promise<Readiness> {
  /** Without their numbers, such as the free bytes of a disk. */
  let since = new Map<string, number>();
  return async () => {
    const [reasons, shortcomings] = [await unready(), degraded()];
    const before = since;
    since = new Map();
    const problems = [...reasons, ...shortcomings].map((reason): ServerProblem => {
      const name = reason.replaceAll(/\d+/g, '#');
      const began = before.get(name) ?? clock.now();
      since.set(name, began);
      return { reason, since: began };
    });
    const readiness = reasons.length > 0 ? 'not ready' : shortcomings.length > 0 ? 'degraded' : 'ready';
    return { readiness, problems };
  };
}

/** A server of the list. */
export interface KnownServer extends Omit<ServerHeartbeat, 'readiness'> {
  /** `gone`: it was killed, or it cannot reach the database. */
  status: ServerHeartbeat['readiness'] | 'gone';
}

export const knownServers = (heartbeats: readonly ServerHeartbeat[], now: number): KnownServer[] =>
  heartbeats.map(({ readiness, ...heartbeat }) => ({
    ...heartbeat,
    status: now - heartbeat.seenAt > GONE_MS ? 'gone' : readiness,
  }));

export interface ServersService {
  /** Tells the others how this server is. */
  beat(): Promise<void>;
  list(): Promise<KnownServer[]>;
  /** This server stops. */
  leave(): Promise<void>;
}

export interface ServersDependencies extends Pick<ServerHeartbeat, 'name' | 'version' | 'commit'> {
  servers: ServerRepository;
  identity: Pick<ProcessIdentity, 'ownerId' | 'startedAt'>;
  readiness(): Promise<Readiness>;
  clock: Pick<StoreClock, 'now' | 'machineAheadMs'>;
}

export function createServers({ servers, identity, readiness, clock, ...about }: ServersDependencies): ServersService {
  const { ownerId: id, startedAt } = identity;
  return {
    async beat() {
      const how = await readiness();
      const [seenAt, clockAheadMs] = [clock.now(), clock.machineAheadMs()];
      await servers.beat({ id, startedAt, ...about, ...how, seenAt, clockAheadMs }, seenAt - FORGOTTEN_MS);
    },
    list: async () => knownServers(await servers.list(), clock.now()),
    leave: () => servers.remove(id),
  };
}
