import type { ApiError } from '../../../errors/api-error.ts';
import { cancellation } from '../../../errors/cancellation.ts';
import { errors } from '../../../errors/errors.ts';
import type { Clock } from '../../../ports/clock.ts';
import type { Logger } from '../../../ports/logger.ts';
import type { CallContext } from '../../engine.ts';
import { createFairQueue } from '../../queue.ts';
import { UpstreamFailure } from '../failure/failure.ts';
import { chooseByPrefix } from './affinity.ts';
import { createFairShares } from './fair-shares.ts';
import { createRetryBudget } from './retry-budget.ts';
import type { Upstream } from './upstream.ts';
import { createUpstreamCall, type UpstreamCall } from './upstream-call.ts';

export interface RouterDependencies {
  slug: string;
  contextLength: number;
  members(): readonly Upstream[];
  logger: Pick<Logger, 'warn'>;
  clock: Clock;
  queue: { places: number; timeoutMs: number };
}

/** What has happened to one request so far. */
interface RequestHistory {
  tried: Set<Upstream>;
  /** The first upstream where it failed in a way that it may have caused. */
  failedAt: Upstream | undefined;
  /** Requests with the same one share the start of their prompts. */
  prefix: string | undefined;
}

type Attempt<T> = (call: UpstreamCall) => Promise<T>;

/** The way to one model's upstreams, in one region or in all of them. */
export interface Route {
  readonly slug: string;
  readonly contextLength: number;
  /**
   * Runs `attempt` at the least loaded upstream. While it fails in a way that another upstream may not, tries the next one, as far as
   * the model's retry budget goes. Rejects with the client's error. `run` releases the call when the attempt has succeeded.
   */
  run<T>(context: CallContext, attempt: Attempt<T>): Promise<[T, Upstream]>;
  /**
   * The same, but the caller releases the call. Requests with the same `prefix` go to the same upstream as far as its load allows, so
   * that its prefix cache helps.
   */
  open<T>(context: CallContext, attempt: Attempt<T>, prefix?: () => string | undefined): Promise<[T, UpstreamCall]>;
  /** How many inputs every upstream takes in one call. */
  maxInputsPerCall(): number;
}

export interface Router {
  regions(): string[];
  route(region: string | undefined): Route;
  /** How many requests wait for an upstream. */
  waiting(): number;
  /** Lets waiting requests try again after an upstream's state has changed. */
  wake(): void;
}

const MAX_ATTEMPTS = 3;
/** While no upstream is known. */
const MOST_INPUTS = 256;
/** When the queue is full. */
const RETRY_AFTER_SECONDS = 1;
const RETRIED = new Set<UpstreamFailure['kind']>(['busy', 'reset', 'broken', 'timeout']);
/** After these the upstream may be out of order; after the others it works. */
const BREAKER_FAILURES = new Set<UpstreamFailure['kind']>(['reset', 'broken', 'timeout']);

export function createRouter(dependencies: RouterDependencies): Router {
  const { slug, contextLength, members, logger, clock, queue } = dependencies;
  const waiting = createFairQueue<UpstreamCall>({
    length: queue.places,
    timeoutMs: queue.timeoutMs,
    retryAfterSeconds: () => RETRY_AFTER_SECONDS,
  });
  const retries = createRetryBudget();
  const shares = createFairShares(clock);
  // Where the search for the least loaded upstream starts, so that equally loaded ones take turns.
  let turn = 0;

  const regions = (): string[] => [
    ...new Set(
      members()
        .filter((upstream) => upstream.available())
        .map((upstream) => upstream.region),
    ),
  ];

  const noneAvailable = (region: string | undefined): ApiError => {
    const served = regions();
    const isServed = region === undefined ? served.length > 0 : served.includes(region);
    // They take requests, but not of this account.
    if (isServed) return errors.modelUnavailable(slug, 'it failed on your last requests');
    return region !== undefined && served.length > 0
      ? errors.regionUnavailable(slug, region, served)
      : errors.upstreamsAway(slug, 'none of its upstreams is healthy');
  };

  const begin = (upstream: Upstream, context: CallContext, history: RequestHistory): UpstreamCall => {
    const startedAt = performance.now();
    upstream.inFlight += 1;
    shares.started(context.accountId);
    upstream.breaker.begin(context.accountId);
    return createUpstreamCall({
      upstream,
      context,
      slug,
      contextLength,
      onRelease(failure) {
        upstream.inFlight -= 1;
        shares.ended(context.accountId);
        recordOutcome(upstream, failure, context, history);
        const durationMs = performance.now() - startedAt;
        upstream.recorder.finished(failure?.kind ?? 'ok', durationMs / 1000);
        context.onAttempt?.({
          upstream: upstream.address,
          region: upstream.region,
          outcome: failure?.kind ?? 'ok',
          durationMs: Math.round(durationMs),
          detail: failure?.detail ?? null,
        });
        waiting.wake();
      },
    });
  };

  const recordOutcome = (
    upstream: Upstream,
    failure: UpstreamFailure | undefined,
    { accountId, requestId }: CallContext,
    history: RequestHistory,
  ): void => {
    if (failure === undefined || !BREAKER_FAILURES.has(failure.kind)) {
      if (failure?.kind === 'cancelled') upstream.breaker.undecided(accountId);
      else upstream.breaker.succeeded(accountId);
      return;
    }
    const { kind, detail, isUpstreamFault } = failure;
    // A request that fails in several places is the cause itself.
    if (!isUpstreamFault && history.failedAt !== undefined && history.failedAt !== upstream) {
      upstream.breaker.undecided(accountId);
    } else upstream.breaker.failed(accountId, isUpstreamFault);
    if (!isUpstreamFault) history.failedAt ??= upstream;
    upstream.noteError(detail);
    logger.warn({ model: slug, upstream: upstream.address, requestId, kind, detail }, 'a call to an upstream failed');
  };

  /** Undefined: all candidates are full, or the account has more than its share of them. */
  const tryBegin = (
    context: CallContext,
    region: string | undefined,
    history: RequestHistory,
  ): UpstreamCall | undefined => {
    const upstreams = members();
    const candidates: Upstream[] = [];
    let capacity = 0;
    for (let i = 0; i < upstreams.length; i++) {
      const upstream = upstreams[(turn + i) % upstreams.length];
      if (upstream === undefined || history.tried.has(upstream)) continue;
      if (!upstream.available(context.accountId)) continue;
      if (region !== undefined && upstream.region !== region) continue;
      candidates.push(upstream);
      capacity += upstream.settings.maxConcurrency;
    }
    if (candidates.length === 0) throw noneAvailable(region);
    if (!shares.mayStart(context.accountId, capacity)) return undefined;
    const best = (history.prefix && chooseByPrefix(history.prefix, candidates)) || leastLoaded(candidates);
    if (best === undefined) return undefined;
    turn = (upstreams.indexOf(best) + 1) % upstreams.length;
    return begin(best, context, history);
  };

  const open = async <T>(
    context: CallContext,
    region: string | undefined,
    attempt: Attempt<T>,
    prefix?: () => string | undefined,
  ): Promise<[T, UpstreamCall]> => {
    retries.add();
    // With one upstream there is nothing to choose.
    const history = {
      tried: new Set<Upstream>(),
      failedAt: undefined,
      prefix: members().length > 1 ? prefix?.() : undefined,
    };
    let resets = 0;
    let last: UpstreamFailure | undefined;
    for (let attempts = 0; attempts < MAX_ATTEMPTS; attempts++) {
      if (context.signal.aborted) throw cancellation(context.signal);
      let call: UpstreamCall;
      try {
        const begin = () => tryBegin(context, region, history);
        call = begin() ?? (await waiting.wait(context, begin));
      } catch (error) {
        // No upstream is left: the last failure says more.
        throw last?.apiError ?? error;
      }
      if (attempts > 0) call.upstream.recorder.retried();
      try {
        const value = await attempt(call);
        // The first bytes of a stream prove that the upstream works; its end may be far away.
        call.upstream.breaker.succeeded(context.accountId);
        return [value, call];
      } catch (error) {
        if (!(error instanceof UpstreamFailure)) {
          call.release();
          throw error;
        }
        call.release(error);
        if (!RETRIED.has(error.kind)) throw error.apiError;
        last = error;
        if (!retries.take()) break;
        // The other side may have closed a kept-alive connection just then: the same upstream gets a second try.
        if (error.kind !== 'reset' || ++resets > 1) history.tried.add(call.upstream);
      }
    }
    throw last?.apiError ?? noneAvailable(region);
  };

  return {
    regions,
    route: (region) => ({
      slug,
      contextLength,
      open: (context, attempt, prefix) => open(context, region, attempt, prefix),
      async run(context, attempt) {
        const [value, call] = await open(context, region, attempt);
        call.release();
        return [value, call.upstream];
      },
      maxInputsPerCall: () => Math.min(MOST_INPUTS, ...members().map(({ learned }) => learned.maxInputsPerCall)),
    }),
    waiting: waiting.waiting,
    wake: waiting.wake,
  };
}

/** Of those with room. */
function leastLoaded(candidates: readonly Upstream[]): Upstream | undefined {
  let best: Upstream | undefined;
  for (const upstream of candidates) {
    if (upstream.hasRoom() && (best === undefined || upstream.load() < best.load())) best = upstream;
  }
  return best;
}
