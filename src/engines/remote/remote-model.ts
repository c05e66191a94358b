import type { EngineSpec } from '../../domain/model.ts';
import { errors } from '../../errors/errors.ts';
import type { EngineModel } from '../engine.ts';
import { createRemoteChat, type RemoteChat } from './chat/capability.ts';
import { createRemoteEmbedding, type RemoteEmbedding } from './embedding/capability.ts';
import { type RemoteScope, scopeAt } from './remote-scope.ts';
import { createRemoteRerank, type RemoteRerank } from './rerank/capability.ts';
import { startHealthChecks } from './routing/health-check.ts';
import { createLease } from './routing/lease.ts';
import { type AttemptReport, createRouter } from './routing/router.ts';
import { createUpstream, type Logger, type UpstreamHealth, type UpstreamSettings } from './routing/upstream.ts';
import { canCountTokens, countAtUpstream, estimateTokens, internalContext } from './token-count.ts';
import { createRemoteTranscription, type RemoteTranscription } from './transcription/capability.ts';

export type RemoteTask = Extract<EngineSpec, { driver: 'remote' }>['task'];

/** An `EngineModel` whose results also tell the region that served them. */
export interface RemoteCalls extends EngineModel {
  readonly chat?: RemoteChat;
  readonly embedding?: RemoteEmbedding;
  readonly rerank?: RemoteRerank;
  readonly transcription?: RemoteTranscription;
}

export interface RemoteModel extends RemoteCalls {
  health(): UpstreamHealth[];
  /** At least one upstream can be asked. */
  isHealthy(): boolean;
  /** Regions with at least one healthy upstream. */
  regions(): string[];
  /** The same model, served from this region only. Needs no disposal of its own. */
  inRegion(region?: string): RemoteCalls;
}

export interface RemoteModelOptions {
  slug: string;
  task: RemoteTask;
  contextLength: number;
  upstreams: readonly UpstreamSettings[];
  /** Where upstreams without a region of their own are. */
  ownRegion: string;
  logger: Logger;
  clock: { now(): number };
  random?: () => number;
  /** Requests that may wait while every place is taken, and for how long. */
  queue?: { places: number; timeoutMs: number };
  healthIntervalMs?: number;
  onAttempt?: (report: AttemptReport) => void;
}

const HEALTH_INTERVAL_MS = 5_000;
const COUNT_TIMEOUT_MS = 2_000;

/** A model that other servers run. Lives in the server process: all it does is wait for the network. */
export function createRemoteModel(options: RemoteModelOptions): RemoteModel {
  const { slug, task, contextLength, logger, clock } = options;
  if (options.upstreams.length === 0) throw new Error(`The model '${slug}' has no upstreams.`);
  const upstreams = options.upstreams.map((settings, index) =>
    createUpstream({ index, settings, slug, ownRegion: options.ownRegion, clock }),
  );
  const router = createRouter({
    slug,
    upstreams,
    clock,
    logger,
    queue: options.queue ?? { places: 256, timeoutMs: 120_000 },
    onAttempt: options.onAttempt,
  });
  const checks = startHealthChecks({
    upstreams,
    slug,
    intervalMs: options.healthIntervalMs ?? HEALTH_INTERVAL_MS,
    random: options.random ?? Math.random,
    logger,
    onChange: router.wake,
  });
  const inputsPerCall = () => Math.min(...upstreams.map((upstream) => upstream.learned.maxInputsPerCall));

  const dispose = async (): Promise<void> => {
    checks.stop();
    await Promise.all(upstreams.map((upstream) => upstream.close()));
  };

  /** Takes no place: counting is light, and callers ask for it before they queue. */
  const count = async (text: string, remote: RemoteScope): Promise<number> => {
    const able = upstreams.find(
      (upstream) =>
        canCountTokens(upstream.settings.kind) &&
        upstream.available() &&
        (remote.region === undefined || upstream.region === remote.region),
    );
    if (able === undefined) return estimateTokens(text);
    const lease = createLease({ upstream: able, context: internalContext(COUNT_TIMEOUT_MS), slug, onRelease() {} });
    try {
      return (await countAtUpstream(lease, [text], scopeAt(remote, lease, 'input')))?.[0] ?? estimateTokens(text);
    } catch {
      return estimateTokens(text);
    } finally {
      lease.release();
    }
  };

  const callsIn = (region: string | undefined): RemoteCalls => {
    const remote: RemoteScope = { slug, contextLength, router, region, inputsPerCall };
    return {
      countTokens: (text) => count(text, remote),
      ...capability(task, remote),
      async [Symbol.asyncDispose]() {},
    };
  };

  const anywhere = callsIn(undefined);
  const pinned = new Map<string, RemoteCalls>();
  return {
    ...anywhere,
    health: () => upstreams.map((upstream) => upstream.health()),
    isHealthy: () => upstreams.some((upstream) => upstream.available()),
    regions: router.regions,
    inRegion(region) {
      if (region === undefined) return anywhere;
      const known = upstreams.some((upstream) => upstream.region === region);
      if (!known) throw errors.regionUnavailable(slug, region, router.regions());
      const calls = pinned.get(region) ?? callsIn(region);
      pinned.set(region, calls);
      return calls;
    },
    [Symbol.asyncDispose]: dispose,
  };
}

function capability(
  task: RemoteTask,
  remote: RemoteScope,
): Omit<RemoteCalls, 'countTokens' | typeof Symbol.asyncDispose> {
  switch (task) {
    case 'chat':
      return { chat: createRemoteChat(remote) };
    case 'embedding':
      return { embedding: createRemoteEmbedding(remote) };
    case 'cross-encoder':
      return { rerank: createRemoteRerank(remote) };
    case 'transcription':
      return { transcription: createRemoteTranscription(remote) };
  }
}
