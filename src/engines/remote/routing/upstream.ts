import { type Dispatcher, Pool } from 'undici';
import type { UpstreamConfig } from '../../../config/schema.ts';
import { createExchanges, type Exchanges } from '../transport/exchange.ts';
import { type Breaker, createBreaker } from './breaker.ts';

export type UpstreamSettings = UpstreamConfig;
export type UpstreamKind = UpstreamSettings['kind'];

export interface Logger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface UpstreamHealth {
  /** Position in the configuration. Addresses stay inside. */
  index: number;
  kind: UpstreamKind;
  region: string;
  healthy: boolean;
  inFlight: number;
  maxConcurrency: number;
  lastError: string | null;
}

/** What an address has shown of itself, beyond its configuration. */
export interface Learned {
  maxInputsPerCall: number;
  /** It refuses `max_tokens` and wants `max_completion_tokens`, as newer OpenAI models do. */
  wantsMaxCompletionTokens: boolean;
  /** Its rerank scores are logits, not probabilities. */
  givesRawScores: boolean;
}

export interface Upstream {
  readonly index: number;
  readonly settings: UpstreamSettings;
  /** The upstream's own name for the model. */
  readonly model: string;
  readonly region: string;
  readonly breaker: Breaker;
  readonly learned: Learned;
  inFlight: number;
  available(): boolean;
  hasRoom(): boolean;
  load(): number;
  /** `api`: under the configured base address; `root`: beside its `/v1`, where servers keep their own routes. */
  path(base: 'api' | 'root', route: string): string;
  /** For answers that are read as they come. */
  request(options: Omit<Dispatcher.RequestOptions, 'origin'>): Promise<Dispatcher.ResponseData>;
  /** For answers that are wanted whole. */
  exchange: Exchanges['begin'];
  readonly authorization: Record<string, string>;
  noteError(message: string | null): void;
  /** The last health check; true before the first one, so that a cold start serves at once. */
  alive: boolean;
  health(): UpstreamHealth;
  close(): Promise<void>;
}

/** TEI's default for `--max-client-batch-size`. */
const TEI_INPUTS_PER_CALL = 32;
/** Small enough that a large request spreads over several addresses. */
const INPUTS_PER_CALL = 256;
/** Health checks and token counts must get through while every place is taken. */
const SPARE_CONNECTIONS = 2;
/** Per stream; past it undici stops reading from the socket until the consumer has caught up. */
export const READ_AHEAD_BYTES = 16 * 1024;

export interface UpstreamDependencies {
  index: number;
  settings: UpstreamSettings;
  slug: string;
  ownRegion: string;
  clock: { now(): number };
}

export function createUpstream({ index, settings, slug, ownRegion, clock }: UpstreamDependencies): Upstream {
  const base = new URL(settings.url);
  const apiPath = base.pathname.replace(/\/+$/, '');
  const rootPath = apiPath.replace(/\/v1$/, '');
  const pool = new Pool(base.origin, {
    connections: settings.maxConcurrency + SPARE_CONNECTIONS,
    pipelining: 1,
    allowH2: false,
    connect: { timeout: settings.connectTimeoutMs },
    // An attempt has its own timers, which tell the first byte from the rest; these would cut long silences in between.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const exchanges = createExchanges({ origin: base, connectTimeoutMs: settings.connectTimeoutMs });
  const breaker = createBreaker(clock);
  let lastError: string | null = null;

  const upstream: Upstream = {
    index,
    settings,
    model: settings.name ?? slug,
    region: settings.region ?? ownRegion,
    breaker,
    learned: {
      maxInputsPerCall: settings.kind === 'tei' ? TEI_INPUTS_PER_CALL : INPUTS_PER_CALL,
      wantsMaxCompletionTokens: false,
      givesRawScores: settings.kind === 'llama-server',
    },
    inFlight: 0,
    alive: true,
    available: () => upstream.alive && breaker.allows(),
    hasRoom: () => upstream.inFlight < settings.maxConcurrency,
    load: () => upstream.inFlight / settings.maxConcurrency,
    path: (where, route) => (where === 'api' ? apiPath : rootPath) + route,
    request: (options) => pool.request(options),
    exchange: exchanges.begin,
    authorization: settings.apiKey === undefined ? {} : { authorization: `Bearer ${settings.apiKey}` },
    noteError(message) {
      lastError = message;
    },
    health: () => ({
      index,
      kind: settings.kind,
      region: upstream.region,
      healthy: upstream.available(),
      inFlight: upstream.inFlight,
      maxConcurrency: settings.maxConcurrency,
      lastError,
    }),
    close() {
      exchanges.close();
      return pool.destroy();
    },
  };
  return upstream;
}
