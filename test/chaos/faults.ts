import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, type Extra, extraMissing } from './cluster/cluster.ts';
import type { Moment } from './cluster/moments.ts';
import type { Part } from './cluster/network.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

/** Begins a fault, and returns how it ends. */
type Begin = (cluster: Cluster, replica: number) => Promise<() => unknown>;

interface FaultRule {
  text: string;
  /** What is in trouble meanwhile. No second fault begins at the same place, of which each replica has its own. */
  place: Part | 'pooler' | 'balancer' | 'replica' | 'link' | 'disk' | 'clock';
  /** Which requests may fail meanwhile. */
  fails: 'all' | 'files' | 'none';
  /** Jobs may run a second time: others take them over, or their results are lost. */
  repeats?: boolean;
  needs?: Extra;
  /** Longer than leases of 15 s at times: others take over while the replica still runs. */
  isLong?: boolean;
  /** Begins a little after this happened, on that replica. */
  after?: Moment;
  begin: Begin;
}

const kill: Begin = async ({ replicas }, replica) => {
  await replicas[replica]?.kill();
  return () => replicas[replica]?.start();
};
const killDuring = (after: Moment, what: string): FaultRule => ({
  text: `kill -9 during ${what}`,
  place: 'replica',
  fails: 'all',
  repeats: true,
  after,
  begin: kill,
});

const haltPostgres =
  (signal: 'SIGINT' | 'SIGQUIT'): Begin =>
  async ({ database: { server } }) => {
    await server.halt(signal);
    return server.start;
  };
/** Of PostgreSQL, for all sessions at once. */
const setPostgres =
  (name: string, value: string): Begin =>
  async ({ database: { run } }) => {
    const change = async (sql: string) => {
      await run(sql);
      await run('select pg_reload_conf()');
    };
    await change(`alter system set ${name} = ${value}`);
    return () => change(`alter system reset ${name}`);
  };

const cut =
  (part: Part): Begin =>
  async (cluster, replica) => {
    cluster.setCut(replica, part, true);
    return () => cluster.setCut(replica, part, false);
  };
const RESET_EVERY_MS = 400;
const reset =
  (part: Part): Begin =>
  async (cluster, replica) => {
    const timer = setInterval(() => {
      for (const link of cluster.linksTo(part, replica)) link.reset();
    }, RESET_EVERY_MS);
    return () => clearInterval(timer);
  };

const S3_DELAY_MS = 400;
const S3_REFUSAL = 'HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n';
const AHEAD_SECONDS = 90;
/** Of the role of the replicas, which use some 15 each. */
const CONNECTIONS = 4;

const postgres = { place: 'postgres', fails: 'all', repeats: true } as const;
const link = { place: 'link', isLong: true } as const;

/** Everything that can go wrong. */
const RULES = {
  kill: { text: 'kill -9', place: 'replica', fails: 'all', repeats: true, begin: kill },
  'kill-stream': killDuring('stream', 'a stream'),
  'kill-upload': killDuring('upload', 'an upload'),
  'kill-background-new': killDuring('background-created', 'the start of a background response'),
  'kill-background': killDuring('background', 'a background response'),
  'kill-batch-new': killDuring('batch-created', 'the validation of a batch'),
  'kill-batch': killDuring('batch', 'lines of a batch'),
  'kill-batch-end': killDuring('batch-end', 'the end of a batch'),

  'postgres-fast': { ...postgres, text: 'fast shutdown of PostgreSQL', begin: haltPostgres('SIGINT') },
  'postgres-immediate': { ...postgres, text: 'immediate shutdown of PostgreSQL', begin: haltPostgres('SIGQUIT') },
  'postgres-frozen': {
    ...postgres,
    text: 'freeze PostgreSQL',
    isLong: true,
    begin: async ({ database: { server } }) => {
      server.freeze();
      return server.thaw;
    },
  },
  'postgres-read-only': {
    ...postgres,
    text: 'PostgreSQL is read-only',
    isLong: true,
    begin: setPostgres('default_transaction_read_only', 'on'),
  },
  'postgres-no-standby': {
    ...postgres,
    text: 'the standby of PostgreSQL is missing',
    isLong: true,
    begin: setPostgres('synchronous_standby_names', "'nobody'"),
  },
  'postgres-password': {
    ...postgres,
    text: 'PostgreSQL has another password than store_file',
    isLong: true,
    begin: async ({ database }) => {
      await database.changePassword();
      await database.disconnectAll();
      return database.publishAgain;
    },
  },
  'postgres-connections': {
    ...postgres,
    text: 'PostgreSQL has no connections left',
    isLong: true,
    begin: async ({ database }) => {
      await database.limitConnections(CONNECTIONS);
      await database.disconnectAll();
      return () => database.limitConnections(-1);
    },
  },
  'postgres-full': {
    ...postgres,
    text: 'the disk of PostgreSQL is full',
    needs: 'disks',
    begin: async ({ database: { disk, server } }) => {
      disk?.fill();
      return () => {
        disk?.free();
        return server.start();
      };
    },
  },
  pooler: {
    text: 'kill PgBouncer',
    place: 'pooler',
    fails: 'all',
    repeats: true,
    needs: 'pooler',
    begin: async ({ database: { pooler } }) => {
      await pooler?.halt();
      return () => pooler?.start();
    },
  },

  redis: {
    text: 'stop Redis',
    place: 'redis',
    fails: 'none',
    begin: async ({ counters }) => {
      const server = await counters.primary();
      await server.kill();
      return server.start;
    },
  },
  'redis-frozen': {
    text: 'freeze Redis',
    place: 'redis',
    fails: 'none',
    isLong: true,
    begin: async ({ counters }) => {
      const server = await counters.primary();
      server.freeze();
      return server.thaw;
    },
  },
  'redis-flushed': {
    text: 'flush Redis',
    place: 'redis',
    fails: 'none',
    begin: async ({ counters }) => {
      await counters.flush();
      return () => {};
    },
  },
  'redis-failover': {
    text: 'fail over to the other Redis',
    place: 'redis',
    fails: 'none',
    needs: 'sentinel',
    begin: async ({ counters }) => {
      await counters.failOver();
      return () => {};
    },
  },

  's3-away': {
    text: 'stop S3',
    place: 's3',
    fails: 'files',
    repeats: true,
    isLong: true,
    begin: async ({ s3 }) => {
      await s3.halt();
      return () => s3.start();
    },
  },
  's3-slow': {
    text: `S3 answers ${S3_DELAY_MS} ms later`,
    place: 's3',
    fails: 'files',
    isLong: true,
    begin: async (cluster) => {
      const links = cluster.linksTo('s3');
      for (const each of links) each.slow(S3_DELAY_MS);
      return () => links.forEach((each) => void each.slow(0));
    },
  },
  's3-refusing': {
    text: 'S3 answers 503',
    place: 's3',
    fails: 'files',
    repeats: true,
    isLong: true,
    begin: async (cluster) => {
      const links = cluster.linksTo('s3');
      for (const each of links) each.refuse(S3_REFUSAL);
      return () => links.forEach((each) => void each.refuse(undefined));
    },
  },

  'cut-redis': { ...link, text: 'cut from Redis', fails: 'none', begin: cut('redis') },
  'cut-postgres': { ...link, text: 'cut from PostgreSQL', fails: 'all', repeats: true, begin: cut('postgres') },
  'cut-s3': { ...link, text: 'cut from S3', fails: 'files', repeats: true, begin: cut('s3') },
  'reset-redis': { ...link, text: 'connections to Redis break', fails: 'none', begin: reset('redis') },
  'reset-postgres': {
    ...link,
    text: 'connections to PostgreSQL break',
    fails: 'all',
    repeats: true,
    begin: reset('postgres'),
  },
  'reset-s3': { ...link, text: 'connections to S3 break', fails: 'files', repeats: true, begin: reset('s3') },
  'reset-engine': {
    ...link,
    text: 'connections to the engine break',
    fails: 'all',
    repeats: true,
    begin: reset('engine'),
  },
  'reset-clients': {
    text: 'restart the load balancer',
    place: 'balancer',
    fails: 'all',
    begin: async ({ balancer }) => {
      await balancer.stop();
      await balancer.start();
      return () => {};
    },
  },

  'disk-full': {
    text: 'data_dir is full',
    place: 'disk',
    fails: 'none',
    needs: 'disks',
    isLong: true,
    begin: async ({ disks }, replica) => {
      disks[replica]?.fill();
      return () => disks[replica]?.free();
    },
  },
  clock: {
    text: `a clock is ${AHEAD_SECONDS} s ahead`,
    place: 'clock',
    fails: 'none',
    needs: 'clock',
    isLong: true,
    begin: async ({ clock }) => {
      clock?.shift(AHEAD_SECONDS);
      return () => clock?.shift(0);
    },
  },
} satisfies Record<string, FaultRule>;

export type FaultKind = keyof typeof RULES;
export const FAULTS = Object.keys(RULES) as FaultKind[];
export const isFaultKind = (name: string): name is FaultKind => name in RULES;
const ruleOf = (kind: FaultKind): FaultRule => RULES[kind];

/** Those which cannot happen here, and why. */
export const missingFaults = (kinds: readonly FaultKind[]): [FaultKind, string][] =>
  kinds.flatMap((kind) => {
    const { needs } = ruleOf(kind);
    const missing = needs === undefined ? undefined : extraMissing[needs];
    return missing === undefined ? [] : [[kind, missing]];
  });

/** What these need in addition to the usual parts. */
export const extrasOf = (kinds: readonly FaultKind[]): Extra[] => [
  ...new Set(kinds.flatMap((kind) => ruleOf(kind).needs ?? [])),
];

/** Whether a request that saw these faults may fail. */
export const mayFail = (kinds: Iterable<string>, isOfFiles: boolean): boolean =>
  [...kinds].some((kind) => {
    const fails = isFaultKind(kind) ? ruleOf(kind).fails : 'none';
    return fails === 'all' || (fails === 'files' && isOfFiles);
  });

/** Whether jobs that saw these faults may run again. */
export const mayRepeat = (kinds: Iterable<string>): boolean =>
  [...kinds].some((kind) => isFaultKind(kind) && ruleOf(kind).repeats === true);

/** One fault, decided before it happens, so that a seed always gives the same list. */
export interface Fault {
  kind: FaultKind;
  replica: number;
  /** After the moment that it waits for. */
  afterMs: number;
  forMs: number;
  /** Until the next one starts. Shorter than `forMs`: they overlap. */
  thenMs: number;
}

const LONG_MS = [1_000, 3_000, 8_000, 20_000];

export function planFaults(
  random: Random,
  { totalMs, kinds, replicas }: { totalMs: number; kinds: readonly FaultKind[]; replicas: number },
): Fault[] {
  const faults: Fault[] = [];
  // All kinds, in another order each time.
  let left: FaultKind[] = [];
  for (let atMs = 0; atMs < totalMs; ) {
    if (left.length === 0) left = [...kinds];
    const kind = random.pick(left);
    left = left.filter((other) => other !== kind);
    const forMs = ruleOf(kind).isLong === true ? random.pick(LONG_MS) : random.between(500, 6_000);
    const overlaps = random.next() < 0.3;
    const thenMs = overlaps ? random.between(200, 2_000) : forMs + random.between(2_000, 7_000);
    faults.push({ kind, replica: random.between(0, replicas - 1), afterMs: random.between(0, 600), forMs, thenMs });
    atMs += thenMs;
  }
  return faults;
}

const OF_ONE_REPLICA: readonly string[] = ['replica', 'link', 'disk'];
/** A moment that does not come is not waited for any longer. */
const MOMENT_MS = 5_000;

/** Runs one fault to its end. A part that is in trouble already is left alone. */
export function createFaults({ cluster, timeline }: { cluster: Cluster; timeline: Timeline }) {
  const busy = new Set<string>();

  return async (fault: Fault): Promise<void> => {
    const { kind, forMs } = fault;
    const { text, place, after, begin } = ruleOf(kind);
    const hit = after === undefined ? undefined : await cluster.moments.next(after, MOMENT_MS);
    const replica = hit ?? fault.replica;
    const where = OF_ONE_REPLICA.includes(place) ? ` replica-${replica + 1}` : '';
    // The connections of one replica to several parts may break at the same time.
    const key = `${place === 'link' ? kind : place}${where}`;
    if (busy.has(key)) return;
    busy.add(key);
    try {
      if (after !== undefined) await sleep(fault.afterMs);
      const event = timeline.begin(kind, `${text}${where === '' ? '' : `,${where}`}, for ${forMs} ms`);
      const end = await begin(cluster, replica);
      await sleep(forMs);
      await end();
      event.end();
    } finally {
      busy.delete(key);
    }
  };
}
