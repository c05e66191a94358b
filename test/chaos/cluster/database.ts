import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type Pooler, startPgbouncer } from '../../fixtures/pgbouncer.ts';
import { type OwnPostgres, startOwnPostgres } from '../../fixtures/postgres-server.ts';
import { mountSmallDisk, type SmallDisk } from '../../fixtures/small-disk.ts';

/** The database of all replicas. They sign in with an ordinary role. */
export interface Database {
  readonly server: OwnPostgres;
  readonly pooler: Pooler | undefined;
  /** The file system of the server, if it has one of its own. */
  readonly disk: SmallDisk | undefined;
  /** For an operator, past all links. */
  readonly url: string;
  /** As an operator, also while nothing else can sign in or write. */
  run(sql: string): Promise<void>;
  /** Of the replicas together; -1: as many as they like. */
  limitConnections(count: number): Promise<void>;
  /** Ends the connections of all replicas and of the pooler. */
  disconnectAll(): Promise<void>;
  /** Writes the address at this place to a file that a replica reads. */
  publish(file: string, host: string, port: number): Promise<void>;
  /** From now on; the files have the old one until `publishAgain`. */
  changePassword(): Promise<void>;
  publishAgain(): Promise<void>;
  stop(): Promise<void>;
}

const ROLE = 'chaos';
/** For some 50 000 requests. */
const DISK_MEGABYTES = 768;
const SMALL_LOG = { max_wal_size: '96MB' };
/** docs/scaling.md asks for these behind PgBouncer. */
const ROLE_SETTINGS = ["idle_in_transaction_session_timeout = '30s'", 'enable_bitmapscan = off'];

export interface DatabaseOptions {
  withPooler: boolean;
  withDisk: boolean;
}

export async function startDatabase({ withPooler, withDisk }: DatabaseOptions): Promise<Database> {
  const disk = withDisk ? mountSmallDisk(DISK_MEGABYTES) : undefined;
  const server = await startOwnPostgres(disk === undefined ? {} : { parent: disk.directory, settings: SMALL_LOG });
  const url = await server.createDatabase();
  let password = randomUUID();
  const connected = async (attemptsLeft = 60): Promise<Client> => {
    const client = new Client(url);
    client.on('error', () => {});
    try {
      await client.connect();
      return client;
    } catch (error) {
      if (attemptsLeft === 0) throw error;
      await sleep(500);
      return connected(attemptsLeft - 1);
    }
  };
  const run = async (...statements: string[]) => {
    // It may still recover.
    const client = await connected();
    try {
      await client.query('set default_transaction_read_only = off');
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };
  const name = new URL(url).pathname.slice(1);
  await run(
    `create role ${ROLE} login password '${password}'`,
    `alter database ${name} owner to ${ROLE}`,
    ...ROLE_SETTINGS.map((setting) => `alter role ${ROLE} set ${setting}`),
  );
  const address = (host: string, port: number) => `postgres://${ROLE}:${password}@${host}:${port}/${name}`;
  const pooler = withPooler ? await startPgbouncer('transaction', address('127.0.0.1', server.port)) : undefined;
  const published: [file: string, host: string, port: number][] = [];
  return {
    server,
    pooler,
    disk,
    url,
    run: (sql) => run(sql),
    limitConnections: (count) => run(`alter role ${ROLE} connection limit ${count}`),
    disconnectAll: () => run(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${ROLE}'`),
    async publish(file, host, port) {
      published.push([file, host, port]);
      await writeFile(file, address(host, port));
    },
    async changePassword() {
      password = randomUUID();
      await run(`alter role ${ROLE} password '${password}'`);
    },
    async publishAgain() {
      await pooler?.usePassword(password);
      for (const [file, host, port] of published) await writeFile(file, address(host, port));
    },
    async stop() {
      await pooler?.stop();
      await server.stop();
      disk?.[Symbol.dispose]();
    },
  };
}
