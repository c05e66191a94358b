import { isIP } from 'node:net';
import { StoreAwayError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import { createClient } from '@redis/client';
import { type HostAndPort, placeOf, type RedisAddress } from './address.ts';
import type { Script } from './scripts.ts';

const UNREACHABLE = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNRESET',
];

/** Tells the operator why Redis cannot be used. Contains no password. */
function connectionProblem(error: unknown, address: RedisAddress): Error {
  if (error instanceof StoreUnavailableError) return error;
  const place = placeOf(address);
  const problem = (text: string) => new StoreUnavailableError(text, { cause: error });
  const away = (text: string) => new StoreAwayError(text, { cause: error });
  const { code = '', message } = error as NodeJS.ErrnoException;
  if (UNREACHABLE.includes(code)) {
    return away(
      `Redis at ${place} cannot be reached: ${systemReason(error)}. Is it running, and is its address in counters right?`,
    );
  }
  if (/no answer within|timeout|closed unexpectedly/i.test(message)) {
    return away(`Redis at ${place} does not answer. Is its address in counters right, and does a firewall allow it?`);
  }
  if (message.startsWith('LOADING')) return away(`Redis at ${place} is reading its data set.`);
  if (/^(WRONGPASS|NOAUTH|ERR (invalid password|AUTH|Client sent AUTH))/i.test(message)) {
    return problem(`Redis at ${place} refuses the user or the password in counters.`);
  }
  if (message.startsWith('NOPERM')) {
    return problem(`Redis at ${place} does not permit what Baobab needs: ${message}.`);
  }
  return problem(`Redis at ${place} cannot be used: ${systemReason(error)}.`);
}

/** One connection. It does not reconnect: open another one when `onLost` is called. */
export interface RedisConnection {
  /** Changes with every start of the server, and when another server becomes the primary. */
  readonly runId: string;
  /** What the operator should know about this server. */
  readonly warnings: readonly string[];
  /** Calls are executed in their order if `isOrdered`. Others may be overtaken when Redis does not know their script. */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    options?: { isOrdered?: boolean },
  ): Promise<unknown[]>;
  close(): void;
}

export interface ConnectOptions {
  address: RedisAddress;
  /** A call or an attempt to connect fails after this time. */
  timeoutMs: number;
  /** Called once, when the connection is lost or does not answer any more. */
  onLost(error: unknown): void;
}

type Client = ReturnType<typeof createClient>;

const PRIMARY_CHECK_MS = 1_000;
const OLDEST = { major: 6, minor: 2 };

export async function connectRedis(options: ConnectOptions): Promise<RedisConnection> {
  const { address, timeoutMs } = options;
  try {
    const server = address.primary === undefined ? address.hosts[0] : await findPrimary(address, timeoutMs);
    if (server === undefined) throw new Error('the address has no host');
    const client = await openClient(server, address, { timeoutMs, database: address.database });
    try {
      return await toConnection(client, server, options);
    } catch (error) {
      client.destroy();
      throw error;
    }
  } catch (error) {
    throw connectionProblem(error, address);
  }
}

async function openClient(
  { host, port }: RedisAddress['hosts'][number],
  { tls, username, password }: Pick<RedisAddress, 'tls' | 'username' | 'password'>,
  { timeoutMs, database }: { timeoutMs: number; database?: number },
): Promise<Client> {
  const socket = { host, port, connectTimeout: timeoutMs, reconnectStrategy: false as const, keepAlive: true };
  const client = createClient({
    socket: tls
      ? {
          ...socket,
          ...(tls.ca !== undefined && { ca: tls.ca }),
          ...(isIP(host) === 0 && { servername: host }),
          tls: true,
        }
      : socket,
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(database !== undefined && { database }),
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    name: 'baobab',
  });
  // Reported through the calls that fail. Without a listener the process would end.
  client.on('error', () => {});
  try {
    await withDeadline(client.connect(), timeoutMs, 'to connect');
  } catch (error) {
    if (client.isOpen) client.destroy();
    throw error;
  }
  return client as Client;
}

/** Asks one sentinel after the other. */
async function findPrimary(address: RedisAddress, timeoutMs: number): Promise<HostAndPort> {
  let failure: unknown;
  for (const sentinel of address.hosts) {
    let client: Client | undefined;
    try {
      const password = address.sentinelPassword;
      client = await openClient(sentinel, { tls: address.tls, password }, { timeoutMs });
      const asked = client.sendCommand<[string, string] | null>([
        'SENTINEL',
        'get-master-addr-by-name',
        address.primary ?? '',
      ]);
      const found = await withDeadline(asked, timeoutMs, 'a sentinel');
      if (found !== null) return { host: found[0], port: Number(found[1]) };
      failure = new StoreUnavailableError(
        `The sentinel at ${sentinel.host}:${sentinel.port} knows no primary '${address.primary}'. Check counters.`,
      );
    } catch (error) {
      failure = error;
    } finally {
      client?.destroy();
    }
  }
  throw failure;
}

/**
 * A primary that was replaced learns it from a sentinel up to ten seconds later. Who went on there would count without those that are at
 * the new one.
 */
function watchPrimary(
  { address, timeoutMs }: ConnectOptions,
  { host, port }: HostAndPort,
  onReplaced: (error: Error) => void,
): NodeJS.Timeout | undefined {
  if (address.primary === undefined) return undefined;
  let isAsking = false;
  const ask = async () => {
    if (isAsking) return;
    isAsking = true;
    const found = await findPrimary(address, timeoutMs).catch(() => undefined);
    isAsking = false;
    if (found === undefined || (found.host === host && found.port === port)) return;
    onReplaced(new Error(`the sentinels name another primary, ${found.host}:${found.port}`));
  };
  return setInterval(() => void ask(), PRIMARY_CHECK_MS).unref();
}

async function toConnection(client: Client, server: HostAndPort, options: ConnectOptions): Promise<RedisConnection> {
  const { address, timeoutMs, onLost } = options;
  let isLost = false;
  let watch: NodeJS.Timeout | undefined;
  const lose = (error: unknown) => {
    if (isLost) return;
    isLost = true;
    clearInterval(watch);
    if (client.isOpen) client.destroy();
    onLost(error);
  };
  const info = parseInfo(String(await withDeadline(client.sendCommand(['INFO']), timeoutMs, 'INFO')));
  checkServer(info, address);
  watch = watchPrimary(options, server, lose);
  client.on('error', lose);
  client.on('end', () => lose(new Error('the connection was closed')));

  async function send(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    isOrdered: boolean,
  ): Promise<unknown> {
    const rest = [`${keys.length}`, ...keys, ...args];
    if (isOrdered) return client.sendCommand(['EVAL', script.text, ...rest]);
    try {
      return await client.sendCommand(['EVALSHA', script.digest, ...rest]);
    } catch (error) {
      if (!(error as Error).message.startsWith('NOSCRIPT')) throw error;
      return client.sendCommand(['EVAL', script.text, ...rest]);
    }
  }

  return {
    runId: info.get('run_id') ?? '',
    warnings: warningsFor(info),
    async run(script, keys, args, { isOrdered = false } = {}) {
      try {
        return (await withDeadline(send(script, keys, args, isOrdered), timeoutMs, 'a script')) as unknown[];
      } catch (error) {
        lose(error);
        throw error;
      }
    },
    close() {
      isLost = true;
      clearInterval(watch);
      if (client.isOpen) client.destroy();
    },
  };
}

const parseInfo = (text: string): Map<string, string> =>
  new Map(
    text.split(/\r?\n/).flatMap((line) => {
      const colon = line.indexOf(':');
      return colon > 0 ? [[line.slice(0, colon), line.slice(colon + 1)] as const] : [];
    }),
  );

function checkServer(info: ReadonlyMap<string, string>, address: RedisAddress): void {
  const version = info.get('redis_version') ?? '';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < OLDEST.major || (major === OLDEST.major && minor < OLDEST.minor)) {
    throw new StoreUnavailableError(
      `Redis at ${placeOf(address)} has version ${version || 'unknown'}. Redis 6.2 or later, or Valkey, is needed.`,
    );
  }
  if (info.get('role') === 'slave') {
    throw new StoreUnavailableError(
      `Redis at ${placeOf(address)} is a read-only replica. Name its primary in counters.`,
    );
  }
  if (info.get('redis_mode') === 'cluster') {
    throw new StoreUnavailableError(
      `Redis at ${placeOf(address)} is part of a cluster, which is not supported. Use one server, or sentinels.`,
    );
  }
}

function warningsFor(info: ReadonlyMap<string, string>): string[] {
  const policy = info.get('maxmemory_policy');
  const mayEvict = policy !== undefined && policy !== 'noeviction' && info.get('maxmemory') !== '0';
  return mayEvict
    ? [`Redis may remove counters when its memory is full (${policy}). Set maxmemory-policy noeviction.`]
    : [];
}

/** An answer that arrived while this process was busy counts: it is read before the deadline is checked. */
async function withDeadline<T>(work: Promise<T>, timeoutMs: number, what: string): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => setImmediate(() => late.reject(new Error(`no answer within ${timeoutMs} ms (${what})`))),
    timeoutMs,
  );
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
