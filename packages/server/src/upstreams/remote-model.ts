import type { EngineTask } from '@baobab/core/domain/model.ts';
import type { BatchLane, ChatRequest, EngineModel } from '@baobab/core/engine/engine.ts';
import type { UpstreamHealth } from '@baobab/core/engine/report.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Scrub } from '@baobab/core/runtime/secret-scrubber.ts';
import { createInteractiveLoad, type InteractiveLoad } from '../admission/interactive-load.ts';
import { createRemoteChat } from './chat/capability.ts';
import { createRemoteEmbedding, type RemoteEmbedding } from './embedding/capability.ts';
import { createRemoteRerank, type RemoteRerank } from './rerank.ts';
import { createRemoteBatchLane } from './routing/batch-lane.ts';
import { type Resolver, systemResolver } from './routing/discovery.ts';
import { createHealthChecks } from './routing/health-check.ts';
import { createUpstreamPool } from './routing/pool.ts';
import { type Route, Router } from './routing/router.ts';
import { createUpstream, upstreamAddresses } from './routing/upstream.ts';
import type { UpstreamMetrics } from './routing/upstream-metrics.ts';
import { createRemoteTranscription, type RemoteTranscription } from './transcription.ts';
import type { UpstreamSettings } from './upstream-settings.ts';
import { createTokenCounter } from './upstream-tokenizer.ts';

export type RemoteTask = Exclude<EngineTask, 'late-interaction'>;

/** An `EngineModel` whose results name the region that served them. */
export interface RemoteCalls extends EngineModel {
  readonly embedding?: RemoteEmbedding;
  readonly rerank?: RemoteRerank;
  readonly transcription?: RemoteTranscription;
}

export interface RemoteModel extends RemoteCalls {
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
  /** The same model, served from this region only. It is not disposed of separately. */
  inRegion(region?: string): RemoteCalls;
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
}

const HEALTH_INTERVAL_MS = 5_000;
const DISCOVERY_INTERVAL_MS = 5_000;

/** A model that other servers run. It lives in the server process because all it does is wait for the network. */
export function createRemoteModel(options: RemoteModelOptions): RemoteModel {
  const { slug, task, contextLength, logger, clock, metrics } = options;
  if (options.upstreams.length === 0) throw new Error(`The model '${slug}' has no upstreams.`);
  const modelName = `${slug}@${options.version}`;
  const addresses = upstreamAddresses(options.upstreams);
  const router = new Router({
    slug,
    contextLength,
    members: () => pool.members(),
    logger,
    clock,
    queue: options.queue ?? { length: 256, timeoutMs: 120_000 },
  });
  metrics.addQueue(modelName, () => router.waiting());
  const checks = createHealthChecks({
    slug,
    intervalMs: options.healthIntervalMs ?? HEALTH_INTERVAL_MS,
    random: options.random ?? Math.random,
    logger,
    onChecked: () => router.wake(),
  });
  const pool = createUpstreamPool({
    slug,
    upstreams: options.upstreams,
    create: (settings, index, endpoint) =>
      createUpstream({
        index,
        settings,
        endpoint,
        slug,
        modelName,
        address: endpoint?.address ?? addresses[index] ?? '',
        ownRegion: options.ownRegion,
        clock,
        metrics,
        scrub: options.scrub ?? ((text) => text),
      }),
    resolver: options.resolver ?? systemResolver,
    intervalMs: options.discoveryIntervalMs ?? DISCOVERY_INTERVAL_MS,
    logger,
    onJoin: checks.add,
    onLeave: checks.remove,
  });
  const { members } = pool;
  const counter = createTokenCounter({ slug, contextLength, members });

  const callsIn = (region: string | undefined): RemoteCalls => ({
    countTokens: (text) => counter.text(text, region),
    ...capability(task, router.route(region), (request) => counter.chat(request, region)),
    async [Symbol.asyncDispose]() {},
  });
  const anywhere = callsIn(undefined);
  const interactive = createInteractiveLoad(clock);
  const pinned = new Map<string, RemoteCalls>();

  return {
    ...anywhere,
    interactive,
    batchLane: createRemoteBatchLane({ name: modelName, members, router, interactive, clock }),
    health: () => members().map((upstream) => upstream.health()),
    isHealthy: () => members().some((upstream) => upstream.available()),
    waiting: () => router.waiting(),
    regions: () => router.regions(),
    inRegion(region) {
      if (region === undefined) return anywhere;
      const known = options.upstreams.some((upstream) => (upstream.region ?? options.ownRegion) === region);
      if (!known) throw errors.regionUnavailable(slug, region, router.regions());
      const calls = pinned.get(region) ?? callsIn(region);
      pinned.set(region, calls);
      return calls;
    },
    async [Symbol.asyncDispose]() {
      checks.stop();
      await pool.close();
    },
  };
}

function capability(
  task: RemoteTask,
  route: Route,
  countTokens: (request: ChatRequest) => Promise<number>,
): Omit<RemoteCalls, 'countTokens' | typeof Symbol.asyncDispose> {
  switch (task) {
    case 'chat':
      return { chat: { ...createRemoteChat(route), countTokens } };
    case 'embedding':
      return { embedding: createRemoteEmbedding(route) };
    case 'cross-encoder':
      return { rerank: createRemoteRerank(route) };
    case 'transcription':
      return { transcription: createRemoteTranscription(route) };
  }
}
