import type { UpstreamConfig } from '../../../config/schema.ts';
import type { Clock } from '../../../ports/clock.ts';
import { createTransport, type Transport } from '../transport/transport.ts';
import { type Breaker, createBreaker } from './breaker.ts';

export type UpstreamSettings = UpstreamConfig;
export type UpstreamKind = UpstreamSettings['kind'];

export interface UpstreamHealth {
  /** Position in the configuration. */
  index: number;
  kind: UpstreamKind;
  region: string;
  healthy: boolean;
  inFlight: number;
  maxConcurrency: number;
  lastError: string | undefined;
}

/** What an upstream's answers have shown, beyond its configuration. */
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
  /** `api`: under the configured base address. `root`: beside its `/v1`, where servers keep their own routes. */
  path(base: 'api' | 'root', route: string): string;
  readonly transport: Transport;
  readonly authorization: Record<string, string>;
  noteError(message: string): void;
  /** Result of the last health check; true before the first one, so that requests need not wait for it. */
  alive: boolean;
  health(): UpstreamHealth;
  close(): Promise<void>;
}

/** TEI's default for `--max-client-batch-size`. */
const TEI_INPUTS_PER_CALL = 32;
/** Small enough that a large request spreads over several upstreams. */
const INPUTS_PER_CALL = 256;
/** For health checks, and for streams whose end has not arrived yet. */
const SPARE_CONNECTIONS = 2;
export interface UpstreamDependencies {
  index: number;
  settings: UpstreamSettings;
  slug: string;
  ownRegion: string;
  clock: Clock;
}

export function createUpstream({ index, settings, slug, ownRegion, clock }: UpstreamDependencies): Upstream {
  const base = new URL(settings.url);
  const apiPath = base.pathname.replace(/\/+$/, '');
  const rootPath = apiPath.replace(/\/v1$/, '');
  const transport = createTransport({
    origin: base,
    maxStreams: settings.maxConcurrency + SPARE_CONNECTIONS,
    connectTimeoutMs: settings.connectTimeoutMs,
  });
  const breaker = createBreaker(clock);
  let lastError: string | undefined;

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
    transport,
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
    close: transport.close,
  };
  return upstream;
}
