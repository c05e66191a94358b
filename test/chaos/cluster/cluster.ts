import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { pgbouncerMissing } from '../../fixtures/pgbouncer.ts';
import { ownPostgresMissing } from '../../fixtures/postgres-server.ts';
import { ownRedisMissing } from '../../fixtures/redis-server.ts';
import { type S3Server, s3Missing, startS3 } from '../../fixtures/s3-server.ts';
import { mountSmallDisk, type SmallDisk, smallDiskMissing } from '../../fixtures/small-disk.ts';
import { type Balancer, balancerMissing, startBalancer } from './balancer.ts';
import { type Clock, clockMissing, createClock } from './clock.ts';
import { type Counters, PRIMARY, startCounters } from './counters.ts';
import { type Database, startDatabase } from './database.ts';
import { type Engine, startEngine } from './engine.ts';
import { type Link, openLink } from './link.ts';
import { createMoments, type Moments } from './moments.ts';
import { createSites, type Part, type Site } from './network.ts';
import { createReplica, type Replica } from './replica.ts';

export const MODELS = {
  chat: 'mistralai/mistral-small-3.2-24b-instruct',
  embedding: 'intfloat/e5-mistral-7b-instruct',
} as const;

export const ADMIN_KEY = 'chaos-administrator-0123456789';

/** Why the cluster cannot be started; undefined if it can. */
export const clusterMissing: string | undefined = ownPostgresMissing ?? ownRedisMissing ?? s3Missing ?? balancerMissing;

/**
 * What only some faults need: PgBouncer between the last replica and PostgreSQL, a second Redis with a sentinel, file systems that can
 * become full, a replica whose clock can be wrong.
 */
export type Extra = 'pooler' | 'sentinel' | 'disks' | 'clock';

/** Why there is none here; undefined if there can be. */
export const extraMissing: Record<Extra, string | undefined> = {
  pooler: pgbouncerMissing,
  sentinel: undefined,
  disks: smallDiskMissing,
  clock: clockMissing,
};

export interface Cluster {
  readonly balancer: Balancer;
  readonly replicas: readonly Replica[];
  readonly database: Database;
  readonly counters: Counters;
  readonly s3: S3Server;
  readonly engine: Engine;
  readonly moments: Moments;
  /** The file systems of the replicas, and the clock of the second one, if they have such. */
  readonly disks: readonly SmallDisk[];
  readonly clock: Clock | undefined;
  /** Logs of the replicas are here. */
  readonly directory: string;
  setCut(replica: number, part: Part, isCut: boolean): void;
  /** Between one replica and a part, or between all and it. */
  linksTo(part: Part, replica?: number): readonly Link[];
  /** Keeps the directory with the logs if asked to. */
  stop(options?: { keepLogs?: boolean }): Promise<void>;
}

export interface ClusterOptions {
  replicas: number;
  /** Cuts drop packets between network namespaces; otherwise proxies stop to forward. */
  withNamespaces: boolean;
  /** The engine writes a word in this time. */
  wordMs: number;
  extras?: readonly Extra[];
  /** The code of the replicas; that of this repository by default. */
  root?: string | undefined;
  /** More settings, for the code of this repository only. */
  env?: Record<string, string> | undefined;
}

/** Of the replica whose clock can be wrong. */
const CLOCK_REPLICA = 1;
const DATA_MEGABYTES = 64;
/** More than the head of a request. */
const UPLOAD_BYTES = 8_192;

/** Starts all parts and replicas, and waits until the replicas are ready. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { extras = [], withNamespaces } = options;
  const has = (extra: Extra) => extras.includes(extra);
  const directory = await mkdtemp(join(tmpdir(), 'baobab-chaos-'));
  const moments = createMoments();
  const [database, counters, s3, engine] = await Promise.all([
    startDatabase({ withPooler: has('pooler'), withDisk: has('disks') }),
    startCounters(directory, has('sentinel')),
    startS3(),
    startEngine({ wordMs: options.wordMs, log: join(directory, 'engine.jsonl'), moments }),
  ]);
  const sites = createSites(options.replicas, withNamespaces);
  const disks = has('disks') ? sites.map(() => mountSmallDisk(DATA_MEGABYTES)) : [];
  const clock = has('clock') ? createClock(join(directory, 'clock')) : undefined;
  const links: Record<Part, Link[]>[] = [];
  const replicas: Replica[] = [];
  const places: { host: string; port: number }[] = [];
  for (const [index, site] of sites.entries()) {
    const isLast = index === sites.length - 1;
    const link = (part: Part, port: number, more = {}) =>
      openLink({ host: site.hostOf(part), target: { host: '127.0.0.1', port }, ...more });
    const onSent = (bytes: Buffer) => {
      if (bytes.length > UPLOAD_BYTES) moments.happened('upload', index);
    };
    const toDatabase = isLast && database.pooler !== undefined ? database.pooler.port : database.server.port;
    const toCounters = await Promise.all(counters.servers.map(({ port }) => link('redis', port)));
    const sentinel = counters.sentinel;
    const moved = counters.servers.map(({ port }, server) => [port, toCounters[server]?.port ?? 0] as const);
    const translate = translated(site.hostOf('redis'), moved);
    const toSentinel = sentinel === undefined ? undefined : await link('redis', sentinel, { translate });
    const own: Record<Part, Link[]> = {
      postgres: [await link('postgres', toDatabase)],
      redis: toSentinel === undefined ? toCounters : [...toCounters, toSentinel],
      s3: [await link('s3', Number(new URL(s3.endpoint).port), { onSent })],
      engine: [await link('engine', engine.port)],
    };
    links.push(own);
    const name = `replica-${index + 1}`;
    const storeFile = join(directory, `${name}.store`);
    await database.publish(storeFile, site.hostOf('postgres'), own.postgres[0]?.port ?? 0);
    const place = { host: site.replicaHost, port: await freePort() };
    places.push(place);
    replicas.push(
      createReplica({
        name,
        ...place,
        directory,
        dataDir: disks[index]?.directory,
        prefix: site.prefix,
        newEnv: options.env ?? {},
        env: {
          ...s3.env,
          ...(index === CLOCK_REPLICA && clock?.env),
          ...settingsOf(site, own, { name, bucket: s3.bucket, withSentinel: toSentinel !== undefined }),
          BAOBAB_STORE_FILE: storeFile,
        },
      }),
    );
  }
  await Promise.all(replicas.map((replica) => replica.start(options.root)));
  const balancer = await startBalancer(directory, places);
  return {
    balancer,
    replicas,
    database,
    counters,
    s3,
    engine,
    moments,
    disks,
    clock,
    directory,
    setCut(replica, part, isCut) {
      const [site, own] = [sites[replica], links[replica]?.[part] ?? []];
      if (site?.setCut !== undefined) site.setCut(part, isCut);
      else for (const link of own) isCut ? link.cut() : link.heal();
    },
    linksTo: (part, replica) =>
      links.flatMap((own, index) => (replica === undefined || replica === index ? own[part] : [])),
    async stop({ keepLogs = false } = {}) {
      await Promise.all(replicas.map((replica) => replica.kill()));
      await balancer.stop();
      await Promise.all(links.flatMap((own) => Object.values(own).flat()).map((link) => link.close()));
      for (const site of sites) site.close();
      await Promise.all([database.stop(), counters.stop(), s3.stop(), engine.close()]);
      for (const disk of disks) disk[Symbol.dispose]();
      if (!keepLogs) await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Makes a sentinel name the links instead of the servers behind them. */
const translated = (host: string, ports: readonly (readonly [from: number, to: number])[]) => {
  const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
  return (bytes: Buffer): Buffer =>
    Buffer.from(
      ports.reduce(
        (text, [from, to]) => text.replaceAll(bulk(`127.0.0.1`) + bulk(`${from}`), bulk(host) + bulk(`${to}`)),
        bytes.toString('latin1'),
      ),
      'latin1',
    );
};

interface SettingsFacts {
  name: string;
  bucket: string;
  withSentinel: boolean;
}

/** How a replica reaches the parts, but for the database. */
function settingsOf(
  site: Site,
  own: Record<Part, Link[]>,
  { name, bucket, withSentinel }: SettingsFacts,
): Record<string, string> {
  const place = (part: Part, index = 0) => `${site.hostOf(part)}:${own[part].at(index)?.port}`;
  const counters = withSentinel ? `redis+sentinel://${place('redis', -1)}/${PRIMARY}` : `redis://${place('redis')}`;
  const noLimits = ['CHAT', 'EMBEDDING'].flatMap((kind) => [
    [`BAOBAB_LIMITS_${kind}_RPM`, '10000000'],
    [`BAOBAB_LIMITS_${kind}_TPM`, '1000000000'],
  ]);
  const url = `http://${place('engine')}/${name}/v1`;
  return {
    BAOBAB_FIRST_KEY: ADMIN_KEY,
    BAOBAB_LOG_FORMAT: 'json',
    BAOBAB_COUNTERS: counters,
    BAOBAB_BLOBS: `s3://${bucket}/chaos`,
    BAOBAB_BLOBS_ENDPOINT: `http://${place('s3')}`,
    BAOBAB_BATCHES_CONCURRENCY: '4',
    ...Object.fromEntries(noLimits),
    BAOBAB_UPSTREAMS: JSON.stringify(Object.values(MODELS).map((model) => ({ model, url, kind: 'openai' }))),
  };
}
