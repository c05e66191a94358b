import type { Logger } from '@baobab/core/ports/logger.ts';
import { yieldToEventLoop } from '@baobab/core/runtime/time-slices.ts';
import type { ServerRoute } from '../dialects/dialect.ts';
import { MODELS } from '../dialects/openai.ts';
import { stream } from '../transport/stream.ts';
import type { Upstream } from './upstream.ts';

const CHECK_TIMEOUT_MS = 5_000;
/** Some servers list hundreds of models. */
const MAX_ANSWER_LENGTH = 4 * 1024 * 1024;

/** A busy server is alive, and so is one without such a route. One that refuses the key is not: it would refuse requests too. */
export const isAlive = (status: number): boolean => status < 400 || status === 404 || status === 405 || status === 429;

async function get(upstream: Upstream, route: ServerRoute, stopped: AbortSignal) {
  const headers = upstream.authorization;
  const answer = await ask(upstream, route, stopped);
  return upstream.refusedOldKey(answer.status, headers) ? ask(upstream, route, stopped) : answer;
}

async function ask(upstream: Upstream, route: ServerRoute, stopped: AbortSignal) {
  const signal = AbortSignal.any([stopped, AbortSignal.timeout(CHECK_TIMEOUT_MS)]);
  const request = { method: 'GET' as const, path: upstream.path(route), headers: upstream.authorization };
  const running = stream(upstream.connections, request);
  const stop = () => running.abort(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  const answer = await running.answer;
  const text = await answer.text(MAX_ANSWER_LENGTH);
  signal.removeEventListener('abort', stop);
  if (text === undefined) answer.abort();
  return { status: answer.status, text };
}

interface CheckResult {
  problem?: string;
  /** The body, if the check asked for the list of models. */
  list?: string | undefined;
}

async function check(upstream: Upstream, stopped: AbortSignal): Promise<CheckResult> {
  const route = upstream.dialect.health;
  try {
    const { status, text } = await get(upstream, route, stopped);
    if (!isAlive(status)) return { problem: `the health check answered ${status}` };
    return route === MODELS && status === 200 ? { list: text ?? '' } : {};
  } catch (error) {
    return { problem: `the health check failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** Returns a problem if the upstream lists its models and ours is not among them. */
async function checkName(
  upstream: Upstream,
  stopped: AbortSignal,
  list: string | undefined,
): Promise<string | undefined> {
  const { model, dialect } = upstream;
  if (dialect.listedNames === undefined) return undefined;
  try {
    const text = list ?? (await get(upstream, MODELS, stopped)).text ?? '';
    const { data }: { data?: unknown } = JSON.parse(text) ?? {};
    if (!Array.isArray(data)) return undefined;
    const ids = data.map((each: { id?: unknown } | null) => String(each?.id));
    return dialect.listedNames(model).some((name) => ids.includes(name))
      ? undefined
      : `it lists no model named '${model}'`;
  } catch {
    return undefined;
  }
}

export interface HealthCheckOptions {
  slug: string;
  intervalMs: number;
  random(): number;
  logger: Pick<Logger, 'info' | 'warn'>;
  /** Called after each check. */
  onChecked(): void;
}

export interface HealthChecks {
  /** Checks an upstream now, and again and again. */
  add(upstream: Upstream): void;
  remove(upstream: Upstream): void;
  stop(): void;
}

export function createHealthChecks({ slug, intervalMs, random, logger, onChecked }: HealthCheckOptions): HealthChecks {
  const stopped = new AbortController();
  const checked = new Set<Upstream>();
  const timers = new Map<Upstream, NodeJS.Timeout>();

  /** Their names are checked again until they are right. */
  const nameIsDue = new Set<Upstream>();
  const isOver = (upstream: Upstream) => stopped.signal.aborted || !checked.has(upstream);

  const recheckName = async (upstream: Upstream, list: string | undefined): Promise<void> => {
    const before = upstream.nameProblem;
    upstream.nameProblem = await checkName(upstream, stopped.signal, list);
    if (upstream.nameProblem === undefined) nameIsDue.delete(upstream);
    else if (before === undefined) {
      const { address, region, nameProblem } = upstream;
      logger.warn({ model: slug, upstream: address, region, problem: nameProblem }, 'upstream may be misconfigured');
    }
  };

  const checkAndRepeat = async (upstream: Upstream): Promise<void> => {
    let { problem, list } = await check(upstream, stopped.signal);
    // Check twice before requests are kept away: after this machine was suspended, the first check only ran out of time.
    if (problem !== undefined && upstream.alive) ({ problem, list } = await check(upstream, stopped.signal));
    if (isOver(upstream)) return;
    const alive = problem === undefined;
    if (alive !== upstream.alive) {
      upstream.alive = alive;
      const facts = { model: slug, upstream: upstream.address, region: upstream.region };
      if (alive) {
        // It was most likely restarted: earlier failures no longer count, and it may serve another model.
        upstream.breaker.succeeded();
        nameIsDue.add(upstream);
        logger.info(facts, 'upstream is back');
      } else logger.warn({ ...facts, problem }, 'upstream is down');
    }
    if (problem !== undefined) upstream.noteError(problem);
    else if (nameIsDue.has(upstream)) await recheckName(upstream, list);
    if (isOver(upstream)) return;
    onChecked();
    // Spread, so that checks of many models do not run at the same moment.
    const timer = setTimeout(() => void checkAndRepeat(upstream), intervalMs * (0.8 + 0.4 * random()));
    timer.unref();
    timers.set(upstream, timer);
  };

  return {
    add(upstream) {
      checked.add(upstream);
      nameIsDue.add(upstream);
      // A thousand upstreams are not asked in one turn of the event loop.
      void yieldToEventLoop().then(() => (isOver(upstream) ? undefined : checkAndRepeat(upstream)));
    },
    remove(upstream) {
      checked.delete(upstream);
      nameIsDue.delete(upstream);
      clearTimeout(timers.get(upstream));
      timers.delete(upstream);
    },
    stop() {
      stopped.abort();
      for (const timer of timers.values()) clearTimeout(timer);
    },
  };
}
