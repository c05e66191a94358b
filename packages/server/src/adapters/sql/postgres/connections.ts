import { hostname } from 'node:os';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { Client, type ClientConfig, Pool, type PoolConfig, types } from 'pg';
import { connectionProblem, type ServerAddress } from './failures.ts';

const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_TIMEOUT_MS = 60_000;
/** As `server_version_num` counts them. */
const OLDEST_VERSION = 140_000;

/** PostgreSQL's int8 as a number. Throws on one that a number cannot hold. */
function exactInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`the integer ${text} of PostgreSQL is too large`);
  return value;
}

const parsers: ClientConfig['types'] = {
  getTypeParser: ((id: number, format?: 'text' | 'binary') =>
    id === types.builtins.INT8
      ? exactInteger
      : types.getTypeParser(id, format ?? 'text')) as typeof types.getTypeParser,
};

/** `sslmode` as every other PostgreSQL client understands it: `require` encrypts, `verify-full` also checks the certificate. */
function withUsualTlsModes(url: string): string {
  if (!/[?&]sslmode=/.test(url) || /[?&]uselibpqcompat=/.test(url)) return url;
  return `${url}&uselibpqcompat=true`;
}

const settings = (url: string): ClientConfig => ({
  connectionString: withUsualTlsModes(url),
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  // The name of the machine, for those who look who has a lock. PostgreSQL keeps 63 bytes.
  fallback_application_name: `baobab@${hostname()}`.slice(0, 63),
  keepAlive: true,
  types: parsers,
});

/**
 * A machine that vanishes leaves its connections open on the server. Without these it would hold its locks, and those of migrations, until
 * TCP gives up: two hours later by default. A process that is only slow is not idle for as long as a query may take.
 *
 * No bitmaps: PostgreSQL would use them to read and sort all rows of an account for one page of them, where it has no statistics and
 * believes that there are few. Our indexes have the order of the pages.
 *
 * The same for every connection, because a pooler in transaction mode gives them to whoever is next. All else that a connection would
 * remember, such as locks, belongs to transactions.
 */
const SESSION_SQL = `set idle_in_transaction_session_timeout = '30s'; set tcp_keepalives_idle = 15;
  set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3;
  set enable_bitmapscan = off`;

export type PoolOptions = Pick<PoolConfig, 'max' | 'query_timeout' | 'pipeline'>;

/** Where the database is now: whoever rotates the password writes another address. */
export type CurrentAddress = () => string;

/** Open connections go on with the password that they were opened with. New ones read the address again. */
export function createPool(address: CurrentAddress, options: PoolOptions): Pool {
  class CurrentClient extends Client {
    constructor(given?: ClientConfig) {
      super({ ...given, ...settings(address()) });
    }
  }
  const pool = new Pool({
    Client: CurrentClient,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
    ...options,
    onConnect: (client) => client.query(SESSION_SQL),
  });
  // The pool drops a broken connection and opens another one for the next query. Queries that were running fail by themselves.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return pool;
}

export interface ServerFacts {
  version: number;
  version_name: string;
  encoding: string;
  is_standby: boolean;
  synchronous_commit: string;
}

/** Why Baobab cannot use this server; undefined if it can. */
export function unsuitable(facts: ServerFacts, { user, database }: ServerAddress): string | undefined {
  if (facts.version < OLDEST_VERSION) return `PostgreSQL 14 or later is needed; this is ${facts.version_name}.`;
  if (facts.is_standby)
    return 'This PostgreSQL server is a standby, which cannot be written. Use the address of the primary.';
  if (facts.encoding !== 'UTF8') {
    return `The database '${database}' has the encoding ${facts.encoding}. Create it with UTF8: createdb -E UTF8 -T template0 ${database}`;
  }
  if (facts.synchronous_commit === 'off') {
    return `synchronous_commit is off, so a crash of PostgreSQL would lose billed requests. Turn it on: alter role "${user}" set synchronous_commit = on`;
  }
  return undefined;
}

const FACTS_SQL = `select
  current_setting('server_version_num')::int as version,
  current_setting('server_version') as version_name,
  current_setting('server_encoding') as encoding,
  current_setting('synchronous_commit') as synchronous_commit,
  pg_is_in_recovery() as is_standby`;

async function connect(client: Client): Promise<ServerFacts> {
  await client.connect();
  await client.query(SESSION_SQL);
  const { rows } = await client.query<ServerFacts>(FACTS_SQL);
  return rows[0] as ServerFacts;
}

/** A connection to a server that was checked. Throws an error that tells the operator what is wrong. */
export async function connectChecked(url: string): Promise<Client> {
  let client: Client;
  try {
    client = new Client(settings(url));
  } catch (error) {
    const { message } = error as Error;
    throw new StoreUnavailableError(`The address in store cannot be used: ${message}.`, { cause: error });
  }
  client.on('error', () => {});
  const { host, port, user, database } = client;
  const address = { host, port, user, database };
  try {
    const problem = unsuitable(await connect(client), address);
    if (problem !== undefined) throw new StoreUnavailableError(problem);
    return client;
  } catch (error) {
    // A server that does not answer the check may not answer the goodbye either.
    client.end().catch(() => {});
    throw error instanceof StoreUnavailableError ? error : connectionProblem(error, address);
  }
}
