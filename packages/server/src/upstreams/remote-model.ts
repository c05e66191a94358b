import type { EngineTask } from '@baobab/core/domain/model.ts';
import type { BatchLane, CallContext, ChatRequest, EngineLease, EngineModel } from '@baobab/core/engine/engine.ts';
import type { UpstreamHealth } from '@baobab/core/engine/report.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { asSecret } from '@baobab/core/runtime/secret.ts';
import type { Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import { sizeOfReading } from '../admission/fair-queue.ts';
import { createInteractiveLoad, type InteractiveLoad } from '../admission/interactive-load.ts';
import { createRemoteChat } from './chat/capability.ts';
import { createRemoteEmbedding, type RemoteEmbedding } from './embedding.ts';
import { createRemoteRerank, type RemoteRerank } from './rerank.ts';
import { type Resolver, systemResolver } from './routing/discovery.ts';
import { createUpstreamPool } from './routing/pool.ts';
import { type Route, Router } from './routing/router.ts';
import { createUpstream, type Upstream, type UpstreamMetrics, upstreamAddresses } from './routing/upstream.ts';
import { createTokenCounter } from './token-counts.ts';
import { createRemoteTokenizer } from './tokenizer.ts';
import { createRemoteTranscription, type RemoteTranscription } from './transcription.ts';
import type { UpstreamSettings } from './upstream-settings.ts';

export type RemoteTask = Exclude<EngineTask, 'late-interaction'>;

/** An `EngineModel` whose results name the region that served them. */
export interface RemoteCalls extends EngineModel {
  readonly embedding?: RemoteEmbedding;
  readonly rerank?: RemoteRerank;
  readonly transcription?: RemoteTranscription;
}

export interface RemoteModel extends AsyncDisposable {
  /**
   * The model as the upstreams of a region serve it, or all of them. Undefined: none takes requests, and the model `runsHere` too. Dispose of
   * it when the request has ended.
   */
  acquire(context: CallContext, region: string | undefined, runsHere: boolean): RemoteLease | undefined;
  /** In all regions, without a lease: for callers that count their requests themselves. */
  readonly calls: RemoteCalls;
  health(): UpstreamHealth[];
  /** How many requests wait for an upstream. */
  waiting(): number;
  /** At least one upstream takes requests. */
  isHealthy(): boolean;
  /** Regions with at least one healthy upstream. */
  regions(): string[];
  /** Its interactive requests, in all regions. */
  readonly interactive: InteractiveLoad;
  readonly batchLane: BatchLane;
}

export interface RemoteLease extends EngineLease {
  readonly engine: RemoteCalls;
}

export interface RemoteModelOptions {
  slug: string;
  version: string;
  task: RemoteTask;
  contextLength: number;
  upstreams: readonly UpstreamSettings[];
  /** Region of the upstreams that have none configured. */
  ownRegion: string;
  logger: Pick<Logger, 'info' | 'warn'>;
  clock: Clock;
  random?: () => number;
  /** How many requests may wait while all upstreams are full, and for how long. */
  queue?: { length: number; timeoutMs: number };
  healthIntervalMs?: number;
  /** For upstreams that DNS names. */
  resolver?: Resolver;
  discoveryIntervalMs?: number;
  metrics: UpstreamMetrics;
  /** Hides the secrets of the server in errors of upstreams. The upstreams' own keys are always hidden. */
  scrub?: Scrub;
  /** The key of an upstream, where it may change. */
  keyOf?(settings: UpstreamSettings): (Secret & Disposable) | undefined;
}

const HEALTH_INTERVAL_MS = 5_000;
const DISCOVERY_INTERVAL_MS = 5_000;

/** A model that other servers run. It lives in the server process because all it does is wait for the network. */
export function createRemoteModel(options: RemoteModelOptions): RemoteModel {
  const { slug, task, contextLength, ownRegion, logger, clock, metrics } = options;
  if (options.upstreams.length === 0) throw new Error(`The model '${slug}' has no upstreams.`);
  const modelName = `${slug}@${options.version}`;
  const addresses = upstreamAddresses(options.upstreams);
  const keys = options.upstreams.map((settings) => options.keyOf?.(settings));
  const pool = createUpstreamPool({
    slug,
    upstreams: options.upstreams,
    create: (settings, index, endpoint) =>
      createUpstream({
        index,
        settings,
        apiKey: keys[index] ?? (settings.apiKey === undefined ? undefined : asSecret(settings.apiKey)),
        endpoint,
        slug,
        modelName,
        address: endpoint?.address ?? addresses[index] ?? '',
        ownRegion,
        clock,
        metrics,
        scrub: options.scrub ?? ((text) => text),
      }),
    resolver: options.resolver ?? systemResolver,
    intervalMs: options.discoveryIntervalMs ?? DISCOVERY_INTERVAL_MS,
    healthIntervalMs: options.healthIntervalMs ?? HEALTH_INTERVAL_MS,
    random: options.random ?? Math.random,
    onChecked: () => router.wake(),
    logger,
  });
  const { members } = pool;
  const queue = options.queue ?? { length: 256, timeoutMs: 120_000 };
  const sizeOf = options.task === 'embedding' || options.task === 'cross-encoder' ? sizeOfReading : undefined;
  const router = new Router({ slug, contextLength, members, logger, clock, queue: { ...queue, sizeOf } });
  metrics.addQueue(modelName, () => router.waiting());
  const counter = createTokenCounter({ slug, contextLength, members });

  const callsIn = (region: string | undefined): RemoteCalls => ({
    countTokens: (text) => counter.text(text, region),
    ...capability(task, router.route(region), (request) => counter.chat(request, region)),
    async [Symbol.asyncDispose]() {},
  });
  const anywhere = callsIn(undefined);
  const interactive = createInteractiveLoad(clock);
  const pinned = new Map<string, RemoteCalls>();

  const isHealthy = (): boolean => members().some((upstream) => upstream.available());

  function callsFor(region: string | undefined): RemoteCalls {
    if (region === undefined) return anywhere;
    const known = options.upstreams.some((upstream) => (upstream.region ?? ownRegion) === region);
    if (!known) throw errors.regionUnavailable(slug, region, router.regions());
    const calls = pinned.get(region) ?? callsIn(region);
    pinned.set(region, calls);
    return calls;
  }

  return {
    acquire(context, region, runsHere) {
      if (runsHere && !isHealthy()) return undefined;
      const engine = callsFor(region);
      return { engine, region: region ?? ownRegion, [Symbol.dispose]: interactive.enter(context) };
    },
    calls: anywhere,
    interactive,
    batchLane: createBatchLane({ name: modelName, members, router, interactive, clock }),
    health: () => members().map((upstream) => upstream.health()),
    isHealthy,
    waiting: () => router.waiting(),
    regions: () => router.regions(),
    async [Symbol.asyncDispose]() {
      await pool.close();
      for (const key of keys) key?.[Symbol.dispose]();
    },
  };
}

function capability(
  task: RemoteTask,
  route: Route,
  countTokens: (request: ChatRequest) => Promise<number>,
): Omit<RemoteCalls, 'countTokens' | typeof Symbol.asyncDispose> {
  const { tokenizer, encode } = createRemoteTokenizer(route);
  switch (task) {
    case 'chat':
      return { tokenizer, chat: { ...createRemoteChat(route), countTokens, encode } };
    case 'embedding':
      return { tokenizer, embedding: createRemoteEmbedding(route) };
    case 'cross-encoder':
      return { tokenizer, rerank: createRemoteRerank(route) };
    case 'transcription':
      return { transcription: createRemoteTranscription(route) };
  }
}

interface BatchLaneOptions {
  /** `slug@version` */
  name: string;
  members(): readonly Upstream[];
  router: Pick<Router, 'interactiveWaits' | 'lastRefusedAt'>;
  interactive: InteractiveLoad;
  clock: Clock;
}

/** An upstream that refuses requests needs longer to have room again than a processor that has become idle. */
const RECOVERY_MS = 8_000;
/** Twice as long as the runner takes to look again. */
const REFUSED_MS = 100;

/**
 * Batches at the upstreams of one model. Only its own interactive requests matter to them: those of other models run elsewhere. While there
 * are some, lines take a quarter of the slots. They make more room when an interactive request has to wait or an upstream is busy.
 */
function createBatchLane({ name, members, router, interactive, clock }: BatchLaneOptions): BatchLane {
  function slots(of: (upstream: Upstream) => number): number {
    let sum = 0;
    for (const upstream of members()) if (upstream.available()) sum += of(upstream);
    return sum;
  }
  return {
    name,
    recoveryMs: RECOVERY_MS,
    most(wanted) {
      const isQuiet = !interactive.isPresent();
      const all = slots(({ batchSlots, settings }) => (isQuiet ? batchSlots : settings.maxConcurrency));
      return Math.max(1, Math.floor(Math.min(wanted, all) / (isQuiet ? 1 : 4)));
    },
    mustYield: () => router.interactiveWaits() || clock.now() - router.lastRefusedAt() < REFUSED_MS,
  };
}
