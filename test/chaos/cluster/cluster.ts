import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../fixtures/free-port.ts';
import { type OwnPostgres, ownPostgresMissing, startOwnPostgres } from '../../fixtures/postgres-server.ts';
import { ownRedisMissing, type RedisServer, startRedis } from '../../fixtures/redis-server.ts';
import { s3Missing, startS3 } from '../../fixtures/s3-server.ts';
import { type Engine, startEngine } from './engine.ts';
import { type Link, openLink } from './link.ts';
import { createSites, PARTS, type Part } from './network.ts';
import { createReplica, type Replica } from './replica.ts';

interface Balancer {
  address: string;
  stop(): Promise<void>;
}

const PROGRAM = process.env.BAOBAB_TEST_HAPROXY ?? 'haproxy';

/** Why there is no load balancer; undefined if there is one. */
const balancerMissing: string | undefined =
  spawnSync(PROGRAM, ['-v']).status === 0
    ? undefined
    : 'there is no haproxy (Debian: apt install haproxy, macOS: brew install haproxy), and BAOBAB_TEST_HAPROXY does not name one';

/** As in deploy/compose/haproxy.cfg. */
const configuration = (port: number, replicas: readonly { host: string; port: number }[]): string => `
global
    maxconn 2000
defaults
    mode http
    timeout connect 3s
    timeout client 75s
    timeout http-request 15s
    timeout check 3s
    timeout server 600s
    option forwardfor
    option redispatch
    retries 2
    retry-on conn-failure
frontend public
    bind 127.0.0.1:${port}
    default_backend replicas
backend replicas
    balance leastconn
    option httpchk GET /readyz
    default-server check inter 1s fall 2 rise 1
${replicas.map((replica, index) => `    server replica-${index + 1} ${replica.host}:${replica.port}`).join('\n')}
`;

async function startBalancer(
  directory: string,
  replicas: readonly { host: string; port: number }[],
): Promise<Balancer> {
  const port = await freePort();
  const file = join(directory, 'haproxy.cfg');
  await writeFile(file, configuration(port, replicas));
  const child = spawn(PROGRAM, ['-db', '-f', file], { stdio: ['ignore', 'ignore', 'ignore'] });
  const exited = once(child, 'exit');
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const address = `http://127.0.0.1:${port}`;
  while ((await fetch(address).catch(() => undefined)) === undefined) {
    if (child.exitCode !== null) throw new Error(`haproxy ended with ${child.exitCode}`);
  }
  return {
    address,
    async stop() {
      process.removeListener('exit', kill);
      kill();
      await exited;
    },
  };
}

export const MODELS = {
  chat: 'mistralai/mistral-small-3.2-24b-instruct',
  embedding: 'intfloat/e5-mistral-7b-instruct',
} as const;

export const ADMIN_KEY = 'chaos-administrator-0123456789';

/** Why the cluster cannot be started; undefined if it can. */
export const clusterMissing: string | undefined = ownPostgresMissing ?? ownRedisMissing ?? s3Missing ?? balancerMissing;

export interface Cluster {
  readonly balancer: Balancer;
  readonly replicas: readonly Replica[];
  readonly postgres: OwnPostgres;
  readonly redis: RedisServer;
  readonly engine: Engine;
  /** The address of the database, past all links. */
  readonly store: string;
  /** Logs of the replicas are here. */
  readonly directory: string;
  setCut(replica: number, part: Part, isCut: boolean): void;
  slow(part: Part, delayMs: number): void;
  /** Keeps the directory with the logs if asked to. */
  stop(options?: { keepLogs?: boolean }): Promise<void>;
}

export interface ClusterOptions {
  replicas: number;
  /** Cuts drop packets between network namespaces; otherwise proxies stop to forward. */
  withNamespaces: boolean;
  /** The engine writes a word in this time. */
  wordMs: number;
  /** The code of the replicas; that of this repository by default. */
  root?: string | undefined;
  /** More settings, for the code of this repository only. */
  env?: Record<string, string> | undefined;
}

function moved(url: string, host: string, port: number): string {
  const address = new URL(url);
  address.hostname = host;
  address.port = `${port}`;
  return address.href;
}

/** Starts all parts and replicas, and waits until the replicas are ready. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const directory = await mkdtemp(join(tmpdir(), 'baobab-chaos-'));
  const [postgres, redis, s3, engine] = await Promise.all([
    startOwnPostgres(),
    startRedis(),
    startS3(),
    startEngine(options.wordMs),
  ]);
  const store = await postgres.createDatabase();
  const targets: Record<Part, number> = {
    postgres: postgres.port,
    redis: redis.port,
    s3: Number(new URL(s3.endpoint).port),
    engine: engine.port,
  };
  const sites = createSites(options.replicas, options.withNamespaces);
  const links: Record<Part, Link>[] = [];
  const replicas: Replica[] = [];
  const places: { host: string; port: number }[] = [];
  for (const [index, site] of sites.entries()) {
    const opened = await Promise.all(
      PARTS.map(async (part) => {
        const target = { host: '127.0.0.1', port: targets[part] };
        return [part, await openLink({ host: site.hostOf(part), target })] as const;
      }),
    );
    const own = Object.fromEntries(opened) as Record<Part, Link>;
    links.push(own);
    const url = (part: Part) => `http://${site.hostOf(part)}:${own[part].port}`;
    const place = { host: site.replicaHost, port: await freePort() };
    places.push(place);
    replicas.push(
      createReplica({
        name: `replica-${index + 1}`,
        ...place,
        directory,
        prefix: site.prefix,
        newEnv: options.env ?? {},
        env: {
          ...s3.env,
          BAOBAB_FIRST_KEY: ADMIN_KEY,
          BAOBAB_LOG_FORMAT: 'json',
          BAOBAB_STORE: moved(store, site.hostOf('postgres'), own.postgres.port),
          BAOBAB_COUNTERS: moved(redis.url, site.hostOf('redis'), own.redis.port),
          BAOBAB_BLOBS: `s3://${s3.bucket}/chaos`,
          BAOBAB_BLOBS_ENDPOINT: url('s3'),
          BAOBAB_BATCHES_CONCURRENCY: '4',
          ...Object.fromEntries(
            ['CHAT', 'EMBEDDING'].flatMap((kind) => [
              [`BAOBAB_LIMITS_${kind}_RPM`, '10000000'],
              [`BAOBAB_LIMITS_${kind}_TPM`, '1000000000'],
            ]),
          ),
          BAOBAB_UPSTREAMS: JSON.stringify(
            Object.values(MODELS).map((model) => ({ model, url: `${url('engine')}/v1`, kind: 'openai' })),
          ),
        },
      }),
    );
  }
  await Promise.all(replicas.map((replica) => replica.start(options.root)));
  const balancer = await startBalancer(directory, places);
  return {
    balancer,
    replicas,
    postgres,
    redis,
    engine,
    store,
    directory,
    setCut(replica, part, isCut) {
      const [site, own] = [sites[replica], links[replica]];
      if (site?.setCut !== undefined) site.setCut(part, isCut);
      else if (isCut) own?.[part].cut();
      else own?.[part].heal();
    },
    slow(part, delayMs) {
      for (const own of links) own[part].slow(delayMs);
    },
    async stop({ keepLogs = false } = {}) {
      await Promise.all(replicas.map((replica) => replica.kill()));
      await balancer.stop();
      await Promise.all(links.flatMap((own) => Object.values(own)).map((link) => link.close()));
      for (const site of sites) site.close();
      await Promise.all([postgres.stop(), redis.stop(), s3.stop(), engine.close()]);
      if (!keepLogs) await rm(directory, { recursive: true, force: true });
    },
  };
}
