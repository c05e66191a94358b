import type { UpstreamFailureKind } from '@baobab/core/domain/attempts.ts';
import type { UpstreamHealth } from '@baobab/core/engine/report.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { createSecretScrubber, type Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import { allButAQuarter } from '../../admission/slots.ts';
import type { Dialect, ServerRoute } from '../dialects/dialect.ts';
import { dialectOf } from '../dialects/dialects.ts';
import { type ConnectionPool, createConnectionPool } from '../transport/connection-pool.ts';
import type { UpstreamSettings } from '../upstream-settings.ts';
import { type Breaker, createBreaker } from './breaker.ts';
import { Deadlines } from './deadlines.ts';
import { type Endpoint, fixedLookup } from './discovery.ts';
import { createPrefixMemory, type PrefixMemory } from './prefixes.ts';

export interface UpstreamLabels {
  /** `slug@version` */
  model: string;
  /** Host and port, without credentials. */
  upstream: string;
}

/** Counts what happens at one upstream. */
export interface UpstreamRecorder {
  /** A call has ended. */
  finished(outcome: 'ok' | UpstreamFailureKind, seconds: number): void;
  /** This upstream was called because an earlier attempt had failed. */
  retried(): void;
  /** An answer had token counts that are not possible. */
  overcounted(): void;
  /** The upstream is no longer used. */
  removed(): void;
}

export interface UpstreamMetrics {
  /** Called once for each upstream. `health` is read whenever the metrics are collected. */
  addUpstream(labels: UpstreamLabels, health: () => UpstreamHealth): UpstreamRecorder;
  /** Called once for each model. */
  addQueue(model: string, waiting: () => number): void;
}

/** What an upstream's answers have shown, beyond its configuration. */
export interface Learned {
  maxInputsPerCall: number;
  /** It refuses `max_tokens` and wants `max_completion_tokens`, as newer OpenAI models do. */
  wantsMaxCompletionTokens: boolean;
  /** Its rerank scores are logits, not probabilities. */
  givesRawScores: boolean;
  /** It reports how many tokens of a prompt were cached; vLLM does so with `--enable-prompt-tokens-details`. Undefined: not known yet. */
  reportsCachedTokens: boolean | undefined;
}

export interface Upstream {
  readonly index: number;
  readonly settings: UpstreamSettings;
  readonly dialect: Dialect;
  /** The upstream's own name for the model. */
  readonly model: string;
  readonly region: string;
  readonly address: string;
  readonly breaker: Breaker;
  readonly recorder: UpstreamRecorder;
  readonly learned: Learned;
  /** For upstreams that report cached tokens only at the end of a stream. */
  readonly prefixes: PrefixMemory | undefined;
  /** Its share of the requests, compared with the others of its model. */
  readonly weight: number;
  inFlight: number;
  batchInFlight: number;
  /** How many requests of batches run at a time. They leave a quarter free, so that interactive ones need not wait for long lines. */
  readonly batchSlots: number;
  /** Takes requests: of this account, or of accounts in general. */
  available(accountId?: string): boolean;
  hasRoom(): boolean;
  load(): number;
  path(route: ServerRoute): string;
  readonly connections: ConnectionPool;
  /** Deadlines of its running calls. */
  readonly deadlines: Deadlines;
  readonly authorization: Readonly<Record<string, string>>;
  /** After it answered a request with these headers: it refused their key, and there is another one by now. */
  refusedOldKey(status: number, headers: Readonly<Record<string, string>>): boolean;
  /** Hides all secrets in an error of the upstream. */
  readonly scrub: Scrub;
  /** What is sent to the upstream and must not come back in an answer. */
  readonly credentials: readonly string[];
  /** Hides the credentials in an answer. */
  readonly scrubAnswer: Scrub;
  noteError(message: string): void;
  /** Result of the last health check; true before the first one, so that requests need not wait for it. */
  alive: boolean;
  /** Set if its list of models does not contain ours. */
  nameProblem: string | undefined;
  /** Set if it refused the last request because it was not started for such requests. */
  unfitness: string | undefined;
  /** When it was last logged that its token counts are not possible. */
  overcountLoggedAt: number;
  health(): UpstreamHealth;
  close(): void;
}

export interface UpstreamDependencies {
  index: number;
  settings: UpstreamSettings;
  apiKey: Secret | undefined;
  /** If DNS named it. */
  endpoint?: Endpoint | undefined;
  slug: string;
  /** `slug@version`, for metrics. */
  modelName: string;
  /** Differs between the upstreams of one model. */
  address: string;
  metrics: UpstreamMetrics;
  /** Hides the secrets of the server. */
  scrub: Scrub;
  ownRegion: string;
  clock: Clock;
}

export function createUpstream(dependencies: UpstreamDependencies): Upstream {
  const { index, settings, apiKey, slug, modelName, address, ownRegion, clock, metrics } = dependencies;
  const base = dependencies.endpoint?.origin ?? new URL(settings.url);
  const dialect = dialectOf(settings.kind);
  const apiPath = base.pathname.replace(/\/+$/, '');
  const rootPath = apiPath.replace(/\/v1$/, '');
  const connections = createConnectionPool({
    origin: base,
    connectTimeoutMs: settings.connectTimeoutMs,
    allowLinkLocal: settings.allowLinkLocal,
    lookup: dependencies.endpoint?.ip === undefined ? undefined : fixedLookup(dependencies.endpoint.ip),
  });
  const breaker = createBreaker(clock);
  const weight = settings.weight ?? dependencies.endpoint?.weight ?? settings.maxConcurrency;
  let key = keyFacts(undefined, apiKey?.value);
  const currentKey = (): KeyFacts => {
    if (apiKey?.value !== key.value) key = keyFacts(key, apiKey?.value);
    return key;
  };
  let lastError: string | undefined;

  const problem = (): string | undefined => {
    if (!upstream.available()) return lastError;
    const paused = breaker.pausedAccounts();
    if (paused === 0) return upstream.nameProblem ?? upstream.unfitness;
    return `requests of ${paused === 1 ? 'one account' : `${paused} accounts`} fail: ${lastError}`;
  };

  const recorder = metrics.addUpstream({ model: modelName, upstream: address }, () => upstream.health());
  const upstream: Upstream = {
    index,
    settings,
    dialect,
    address,
    recorder,
    nameProblem: undefined,
    unfitness: undefined,
    overcountLoggedAt: Number.NEGATIVE_INFINITY,
    model: settings.name ?? slug,
    region: settings.region ?? ownRegion,
    breaker,
    learned: {
      maxInputsPerCall: dialect.inputsPerCall,
      wantsMaxCompletionTokens: false,
      givesRawScores: dialect.givesRawScores,
      reportsCachedTokens: undefined,
    },
    prefixes: dialect.countsCachedAtEnd ? createPrefixMemory() : undefined,
    weight,
    inFlight: 0,
    batchInFlight: 0,
    batchSlots: allButAQuarter(settings.maxConcurrency),
    alive: true,
    available: (accountId) => upstream.alive && breaker.allows(accountId),
    hasRoom: () => upstream.inFlight < settings.maxConcurrency,
    load: () => upstream.inFlight / weight,
    path: ({ base: where, route }) => (where === 'api' ? apiPath : rootPath) + route,
    connections,
    deadlines: new Deadlines(),
    get authorization() {
      return currentKey().authorization;
    },
    refusedOldKey(status, { authorization }) {
      if (apiKey === undefined || !KEY_REFUSED.has(status)) return false;
      apiKey.reread();
      return currentKey().authorization.authorization !== authorization;
    },
    scrub: (text) => dependencies.scrub(currentKey().scrub(text)),
    get credentials() {
      return currentKey().credentials;
    },
    scrubAnswer: (text) => currentKey().scrubAnswer(text),
    noteError(message) {
      lastError = message;
    },
    health: () => ({
      index,
      address,
      kind: settings.kind,
      region: upstream.region,
      healthy: upstream.available(),
      misconfigured: (upstream.nameProblem ?? upstream.unfitness) !== undefined,
      breaker: breaker.state(),
      inFlight: upstream.inFlight,
      maxConcurrency: settings.maxConcurrency,
      problem: problem(),
      lastError,
    }),
    close() {
      recorder.removed();
      connections.close();
      upstream.deadlines.close();
    },
  };
  return upstream;
}

/** This one and the one before it. */
const MOST_KEYS = 2;
const KEY_REFUSED: ReadonlySet<number> = new Set([401, 403]);

interface KeyFacts {
  value: string | undefined;
  authorization: Readonly<Record<string, string>>;
  scrub: Scrub;
  credentials: readonly string[];
  scrubAnswer: Scrub;
}

/** What follows from a key. Those before it stay hidden: requests that were sent with them may be running. */
function keyFacts(before: KeyFacts | undefined, value: string | undefined): KeyFacts {
  const own = value !== undefined && isCredential(value) ? [value] : [];
  const credentials = [...own, ...(before?.credentials ?? [])].slice(0, MOST_KEYS);
  return {
    value,
    authorization: value === undefined ? {} : { authorization: `Bearer ${value}` },
    scrub: createSecretScrubber([value]),
    credentials,
    scrubAnswer: createSecretScrubber(credentials),
  };
}

/**
 * Servers without authentication get a placeholder, such as `ollama` or `not-needed`. It is a word that answers may contain, so it is
 * not hidden in them.
 */
const isCredential = (key: string): boolean => key.length >= 16 || (key.length >= 8 && /\d/.test(key));

/** Host and port of each upstream. Those of one model that share them are numbered. */
export function upstreamAddresses(settings: readonly Pick<UpstreamSettings, 'url'>[]): string[] {
  const hosts = settings.map(({ url }) => new URL(url).host);
  return hosts.map((host, index) => (hosts.indexOf(host) === hosts.lastIndexOf(host) ? host : `${host}#${index}`));
}
