import type { ApiError } from '../../../errors/api-error.ts';
import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { CallContext } from '../../engine.ts';
import { createFairQueue } from '../../queue.ts';
import { UpstreamFailure } from '../failure.ts';
import { createLease, type Lease } from './lease.ts';
import type { Logger, Upstream } from './upstream.ts';

/** How one attempt at one address ended; for metrics. */
export interface AttemptReport {
  upstream: number;
  region: string;
  outcome: 'ok' | UpstreamFailure['kind'];
  durationMs: number;
}

export interface RouterDependencies {
  slug: string;
  upstreams: readonly Upstream[];
  clock: { now(): number };
  logger: Logger;
  queue: { places: number; timeoutMs: number };
  onAttempt?: ((report: AttemptReport) => void) | undefined;
}

export interface Router {
  regions(): string[];
  /**
   * Runs `attempt` at the least loaded address and, while that fails in a way another address may not, at the next ones. The
   * lease of the attempt that succeeded stays open: `call` closes it, `open` leaves that to the caller.
   */
  open<T>(context: CallContext, region: string | undefined, attempt: (lease: Lease) => Promise<T>): Promise<[T, Lease]>;
  call<T>(context: CallContext, region: string | undefined, attempt: (lease: Lease) => Promise<T>): Promise<[T, Lease]>;
  wake(): void;
}

const MAX_ATTEMPTS = 3;
/** When the queue is full. */
const RETRY_AFTER_SECONDS = 1;
const RETRIED = new Set<UpstreamFailure['kind']>(['busy', 'reset', 'broken', 'timeout']);
/** These tell that the address does not work; the others that it does. */
const HELD_AGAINST = new Set<UpstreamFailure['kind']>(['reset', 'broken', 'timeout']);

export function createRouter({ slug, upstreams, clock, logger, queue, onAttempt }: RouterDependencies): Router {
  const waiting = createFairQueue<Lease>({
    length: queue.places,
    timeoutMs: queue.timeoutMs,
    retryAfterSeconds: () => RETRY_AFTER_SECONDS,
  });
  // Equal loads take turns.
  let turn = 0;

  const regions = (): string[] => [
    ...new Set(upstreams.filter((upstream) => upstream.available()).map((upstream) => upstream.region)),
  ];

  const nobody = (region: string | undefined): ApiError => {
    const served = regions();
    return region !== undefined && served.length > 0
      ? errors.regionUnavailable(slug, region, served)
      : errors.modelUnavailable(slug, 'none of its upstreams is healthy');
  };

  const lend = (upstream: Upstream, context: CallContext): Lease => {
    const startedAt = clock.now();
    upstream.inFlight += 1;
    upstream.breaker.begin();
    return createLease({
      upstream,
      context,
      slug,
      onRelease(failure) {
        upstream.inFlight -= 1;
        if (failure === undefined) upstream.breaker.succeeded();
        else settleFailure(upstream, failure, context);
        const outcome = failure?.kind ?? 'ok';
        onAttempt?.({
          upstream: upstream.index,
          region: upstream.region,
          outcome,
          durationMs: clock.now() - startedAt,
        });
        waiting.wake();
      },
    });
  };

  const settleFailure = (upstream: Upstream, failure: UpstreamFailure, context: CallContext): void => {
    if (!HELD_AGAINST.has(failure.kind)) {
      if (failure.kind === 'cancelled') upstream.breaker.undecided();
      else upstream.breaker.succeeded();
      return;
    }
    upstream.breaker.failed();
    upstream.noteError(failure.detail);
    logger.warn(
      {
        model: slug,
        upstream: upstream.index,
        requestId: context.requestId,
        kind: failure.kind,
        detail: failure.detail,
      },
      'an upstream failed',
    );
  };

  /** Undefined: all that may serve are full. */
  const tryAcquire = (
    context: CallContext,
    region: string | undefined,
    tried: ReadonlySet<Upstream>,
  ): Lease | undefined => {
    let best: Upstream | undefined;
    let candidates = 0;
    for (let i = 0; i < upstreams.length; i++) {
      const upstream = upstreams[(turn + i) % upstreams.length];
      if (upstream === undefined || tried.has(upstream) || !upstream.available()) continue;
      if (region !== undefined && upstream.region !== region) continue;
      candidates += 1;
      if (upstream.hasRoom() && (best === undefined || upstream.load() < best.load())) best = upstream;
    }
    if (candidates === 0) throw nobody(region);
    if (best === undefined) return undefined;
    turn = (best.index + 1) % upstreams.length;
    return lend(best, context);
  };

  const open: Router['open'] = async (context, region, attempt) => {
    const tried = new Set<Upstream>();
    let resets = 0;
    let last: UpstreamFailure | undefined;
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
      if (context.signal.aborted) throw cancellation(context.signal);
      let lease: Lease;
      try {
        lease =
          tryAcquire(context, region, tried) ?? (await waiting.wait(context, () => tryAcquire(context, region, tried)));
      } catch (error) {
        // Nobody is left to try: what the last one said is the better answer.
        throw last?.apiError ?? error;
      }
      try {
        const value = await attempt(lease);
        // A long stream has proved the address with its first bytes; others need not wait for its end.
        lease.upstream.breaker.succeeded();
        return [value, lease];
      } catch (error) {
        if (!(error instanceof UpstreamFailure)) {
          lease.release();
          throw error;
        }
        lease.release(error);
        if (!RETRIED.has(error.kind)) throw error;
        last = error;
        // A kept-alive connection may have been closed by the other side just then; that deserves a second try there.
        if (error.kind !== 'reset' || ++resets > 1) tried.add(lease.upstream);
      }
    }
    throw last?.apiError ?? nobody(region);
  };

  return {
    regions,
    open,
    async call(context, region, attempt) {
      const [value, lease] = await open(context, region, attempt);
      lease.release();
      return [value, lease];
    },
    wake: () => waiting.wake(),
  };
}

/** For the outer edge: inside, failures keep their kind so that callers may act on it. */
export function toApiError(error: unknown): unknown {
  return error instanceof UpstreamFailure ? error.apiError : error;
}
