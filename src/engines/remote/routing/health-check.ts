import type { Logger, Upstream, UpstreamKind } from './upstream.ts';

const CHECK_TIMEOUT_MS = 5_000;

/** llama-server answers 503 on /health while it loads; servers without such a route list their models instead. */
const ROUTES: Record<UpstreamKind, { base: 'api' | 'root'; route: string }> = {
  tei: { base: 'root', route: '/health' },
  vllm: { base: 'root', route: '/health' },
  'llama-server': { base: 'root', route: '/health' },
  ollama: { base: 'api', route: '/models' },
  openai: { base: 'api', route: '/models' },
  baobab: { base: 'api', route: '/models' },
};

/** Busy is alive; so is a server that answers, but has no such route. A refused key is not: no request would pass either. */
const isAlive = (status: number): boolean => status < 400 || status === 404 || status === 405 || status === 429;

async function check(upstream: Upstream, signal: AbortSignal): Promise<string | null> {
  const { base, route } = ROUTES[upstream.settings.kind];
  try {
    const answer = await upstream.request({
      method: 'GET',
      path: upstream.path(base, route),
      headers: upstream.authorization,
      signal: AbortSignal.any([signal, AbortSignal.timeout(CHECK_TIMEOUT_MS)]),
    });
    await answer.body.dump();
    return isAlive(answer.statusCode) ? null : `the health check answered ${answer.statusCode}`;
  } catch (error) {
    return `the health check failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

export interface HealthCheckOptions {
  upstreams: readonly Upstream[];
  slug: string;
  intervalMs: number;
  random(): number;
  logger: Logger;
  /** Someone may be waiting for what changed. */
  onChange(): void;
}

/** Looks at every address now and then, until stopped. */
export function startHealthChecks({ upstreams, slug, intervalMs, random, logger, onChange }: HealthCheckOptions): {
  stop(): void;
} {
  const stopped = new AbortController();
  const timers = new Map<Upstream, NodeJS.Timeout>();

  const look = async (upstream: Upstream): Promise<void> => {
    let problem = await check(upstream, stopped.signal);
    // Once more before anybody is turned away: where this process or its machine has slept, only the time was up.
    if (problem !== null && upstream.alive) problem = await check(upstream, stopped.signal);
    if (stopped.signal.aborted) return;
    const alive = problem === null;
    if (alive !== upstream.alive) {
      upstream.alive = alive;
      const fields = { model: slug, upstream: upstream.index, region: upstream.region };
      // It has most likely been started anew: what it failed at before no longer counts.
      if (alive) upstream.breaker.succeeded();
      if (alive) logger.info(fields, 'upstream is back');
      else logger.warn({ ...fields, problem }, 'upstream is down');
    }
    if (!alive) upstream.noteError(problem);
    onChange();
    // Spread, so that many models on one server do not knock at the same moment.
    const timer = setTimeout(() => void look(upstream), intervalMs * (0.8 + 0.4 * random()));
    timer.unref();
    timers.set(upstream, timer);
  };

  for (const upstream of upstreams) void look(upstream);
  return {
    stop() {
      stopped.abort();
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
