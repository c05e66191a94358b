import type { Logger } from '../../../ports/logger.ts';
import type { Upstream, UpstreamKind } from './upstream.ts';

const CHECK_TIMEOUT_MS = 5_000;
/** Some servers list hundreds of models. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** llama-server answers 503 on /health while it loads. Servers without such a route list their models instead. */
const ROUTES: Record<UpstreamKind, { base: 'api' | 'root'; route: string }> = {
  tei: { base: 'root', route: '/health' },
  vllm: { base: 'root', route: '/health' },
  'llama-server': { base: 'root', route: '/health' },
  ollama: { base: 'api', route: '/models' },
  openai: { base: 'api', route: '/models' },
  baobab: { base: 'api', route: '/models' },
};

/** A busy server is alive, and so is one without such a route. One that refuses the key is not: it would refuse requests too. */
const isAlive = (status: number): boolean => status < 400 || status === 404 || status === 405 || status === 429;

/** Returns what is wrong, or undefined. */
async function check(upstream: Upstream, stopped: AbortSignal): Promise<string | undefined> {
  const { base, route } = ROUTES[upstream.settings.kind];
  const signal = AbortSignal.any([stopped, AbortSignal.timeout(CHECK_TIMEOUT_MS)]);
  try {
    const request = { method: 'GET' as const, path: upstream.path(base, route), headers: upstream.authorization };
    const answer = await upstream.transport.stream(request, signal);
    if ((await answer.text(MAX_ANSWER_BYTES)) === undefined) answer.abort();
    return isAlive(answer.status) ? undefined : `the health check answered ${answer.status}`;
  } catch (error) {
    return `the health check failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

export interface HealthCheckOptions {
  upstreams: readonly Upstream[];
  slug: string;
  intervalMs: number;
  random(): number;
  logger: Pick<Logger, 'info' | 'warn'>;
  /** Called after each check. */
  onChecked(): void;
}

/** Checks every upstream again and again until stopped. */
export function startHealthChecks({ upstreams, slug, intervalMs, random, logger, onChecked }: HealthCheckOptions): {
  stop(): void;
} {
  const stopped = new AbortController();
  const timers = new Map<Upstream, NodeJS.Timeout>();

  const checkAndRepeat = async (upstream: Upstream): Promise<void> => {
    let problem = await check(upstream, stopped.signal);
    // Check twice before requests are kept away: after this machine was suspended, the first check only ran out of time.
    if (problem !== undefined && upstream.alive) problem = await check(upstream, stopped.signal);
    if (stopped.signal.aborted) return;
    const alive = problem === undefined;
    if (alive !== upstream.alive) {
      upstream.alive = alive;
      const facts = { model: slug, upstream: upstream.index, region: upstream.region };
      // It was most likely restarted: earlier failures no longer count.
      if (alive) upstream.breaker.succeeded();
      if (alive) logger.info(facts, 'upstream is back');
      else logger.warn({ ...facts, problem }, 'upstream is down');
    }
    if (problem !== undefined) upstream.noteError(problem);
    onChecked();
    // Spread, so that checks of many models do not run at the same moment.
    const timer = setTimeout(() => void checkAndRepeat(upstream), intervalMs * (0.8 + 0.4 * random()));
    timer.unref();
    timers.set(upstream, timer);
  };

  for (const upstream of upstreams) void checkAndRepeat(upstream);
  return {
    stop() {
      stopped.abort();
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
