import { MAY_BE_OUT_OF_ORDER, mayRepeatAtSame, mayRepeatCall, RetryBudget } from '@baobab/core/domain/attempts.ts';
import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { createFairQueue, Drain, type FairQueue, type QueueSize } from '../../admission/fair-queue.ts';
import { createFairShares, type FairShares } from '../../admission/fair-shares.ts';
import { UpstreamFailure } from '../failure/failure.ts';
import { chooseByPrefix } from './prefixes.ts';
import type { Upstream } from './upstream.ts';
import { UpstreamCall } from './upstream-call.ts';

export interface RouterDependencies {
  slug: string;
  contextLength: number;
  members(): readonly Upstream[];
  logger: Pick<Logger, 'warn'>;
  clock: Clock;
  queue: { length: number; timeoutMs: number; sizeOf?: QueueSize | undefined };
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

/** What has happened to one request so far. */
interface RequestHistory {
  tried: Set<Upstream>;
  /** The first upstream where it failed in a way that it may have caused. */
  failedAt: Upstream | undefined;
  /** Requests with the same one share the start of their prompts. */
  prefix: string | undefined;
}

/** While no upstream is known. */
const MOST_INPUTS = 256;

/** An upstream that counts wrong may do so in every answer; a metric counts them all. */
const OVERCOUNT_LOG_MS = 60_000;

/** Sends the requests of one model to its upstreams. */
export class Router {
  readonly #slug: string;
  readonly #contextLength: number;
  readonly #members: () => readonly Upstream[];
  readonly #logger: RouterDependencies['logger'];
  readonly #clock: Clock;
  readonly #waiting: FairQueue<UpstreamCall>;
  readonly #drain = new Drain();
  readonly #retries = new RetryBudget();
  readonly #shares: FairShares;
  /** Where the search for the least loaded upstream starts, so that equally loaded ones take turns. */
  #turn = 0;
  /** What kept the last request that got no upstream waiting. Others of its account, or all requests for the region. */
  #obstacle: 'all' | 'account' = 'all';
  #lastRefusedAt = Number.NEGATIVE_INFINITY;

  constructor({ slug, contextLength, members, logger, clock, queue }: RouterDependencies) {
    this.#slug = slug;
    this.#contextLength = contextLength;
    this.#members = members;
    this.#logger = logger;
    this.#clock = clock;
    this.#waiting = createFairQueue<UpstreamCall>({
      bound: {
        ...queue,
        retryAfterSeconds: () => this.#drain.retryAfterSeconds(this.#waiting.waiting(), this.#slots()),
      },
      obstacle: () => this.#obstacle,
    });
    this.#shares = createFairShares(clock);
  }

  /** Where an upstream takes requests. */
  regions(): string[] {
    const available = this.#members().filter((upstream) => upstream.available());
    return [...new Set(available.map((upstream) => upstream.region))];
  }

  route(region: string | undefined): Route {
    return {
      slug: this.#slug,
      contextLength: this.#contextLength,
      open: (context, attempt, prefix) => this.#open(context, region, attempt, prefix),
      run: async (context, attempt) => {
        const [value, call] = await this.#open(context, region, attempt);
        call.release();
        return [value, call.upstream];
      },
      maxInputsPerCall: () => Math.min(MOST_INPUTS, ...this.#members().map(({ learned }) => learned.maxInputsPerCall)),
    };
  }

  /** How many requests wait for an upstream. */
  waiting(): number {
    return this.#waiting.waiting();
  }

  /** An interactive request waits for an upstream. */
  interactiveWaits(): boolean {
    return this.#waiting.isBehindOthers('interactive');
  }

  /** When an upstream was last too busy for a request. */
  lastRefusedAt(): number {
    return this.#lastRefusedAt;
  }

  /** Lets waiting requests try again after an upstream's state has changed. */
  wake(): void {
    this.#waiting.wake();
  }

  /** Of all upstreams that take requests. */
  #slots(): number {
    return this.#members().reduce(
      (sum, upstream) => sum + (upstream.available() ? upstream.settings.maxConcurrency : 0),
      0,
    );
  }

  async #open<T>(
    context: CallContext,
    region: string | undefined,
    attempt: Attempt<T>,
    prefix?: () => string | undefined,
  ): Promise<[T, UpstreamCall]> {
    this.#retries.add();
    // With one upstream there is nothing to choose.
    const history = {
      tried: new Set<Upstream>(),
      failedAt: undefined,
      prefix: this.#members().length > 1 ? prefix?.() : undefined,
    };
    let resets = 0;
    let last: UpstreamFailure | undefined;
    for (let attempts = 1; ; attempts += 1) {
      if (context.signal.aborted) throw cancellation(context.signal);
      let call: UpstreamCall;
      try {
        const begin = () => this.#tryBegin(context, region, history);
        // A request that has tried an upstream asks for one of the others.
        const need = history.tried.size > 0 ? context.requestId : region;
        call = begin() ?? (await this.#waiting.wait(context, begin, need));
      } catch (error) {
        // No upstream is left: the last failure says more.
        throw last?.apiError ?? error;
      }
      if (attempts > 1) call.upstream.recorder.retried();
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
        if (!mayRepeatCall(error.kind, attempts) || !this.#retries.take()) throw error.apiError;
        last = error;
        if (!mayRepeatAtSame(error.kind, resets)) history.tried.add(call.upstream);
        if (error.kind === 'reset') resets += 1;
      }
    }
  }

  /** Undefined: the request has to wait. */
  #tryBegin(context: CallContext, region: string | undefined, history: RequestHistory): UpstreamCall | undefined {
    const upstream = this.#choose(context, region, history);
    return upstream && this.#begin(upstream, context, history);
  }

  /** Undefined: all candidates are full, or the account has more than its share of them. Throws when there are none. */
  #choose(context: CallContext, region: string | undefined, history: RequestHistory): Upstream | undefined {
    this.#obstacle = 'all';
    const upstreams = this.#members();
    const candidates: Upstream[] = [];
    let capacity = 0;
    for (let i = 0; i < upstreams.length; i++) {
      const upstream = upstreams[(this.#turn + i) % upstreams.length];
      if (upstream === undefined || history.tried.has(upstream)) continue;
      if (!upstream.available(context.accountId)) {
        if (upstream.available()) this.#obstacle = 'account';
        continue;
      }
      if (region !== undefined && upstream.region !== region) continue;
      candidates.push(upstream);
      capacity += upstream.settings.maxConcurrency;
    }
    if (candidates.length === 0) throw this.#noneAvailable(region);
    if (!this.#shares.mayStart(context, capacity)) {
      this.#obstacle = 'account';
      return undefined;
    }
    const open = context.priority === 'batch' ? candidates.filter(hasRoomForBatches) : candidates;
    const best = (history.prefix && chooseByPrefix(history.prefix, open)) || leastLoaded(open);
    if (best !== undefined) this.#turn = (upstreams.indexOf(best) + 1) % upstreams.length;
    return best;
  }

  #noneAvailable(region: string | undefined): ApiError {
    const served = this.regions();
    const isServed = region === undefined ? served.length > 0 : served.includes(region);
    // They take requests, but not of this account.
    if (isServed) return errors.modelUnavailable(this.#slug, 'it failed on your last requests');
    return region !== undefined && served.length > 0
      ? errors.regionUnavailable(this.#slug, region, served)
      : errors.upstreamsAway(this.#slug, 'none of its upstreams is healthy');
  }

  #begin(upstream: Upstream, context: CallContext, history: RequestHistory): UpstreamCall {
    const startedAt = performance.now();
    const takenAt = this.#clock.now();
    const inBatch = context.priority === 'batch' ? 1 : 0;
    upstream.inFlight += 1;
    upstream.batchInFlight += inBatch;
    this.#shares.started(context);
    const end = this.#waiting.begin(context);
    upstream.breaker.begin(context.accountId);
    return new UpstreamCall({
      upstream,
      context,
      slug: this.#slug,
      contextLength: this.#contextLength,
      onOvercount: () => this.#noteOvercount(upstream, context),
      onRelease: (failure) => {
        upstream.inFlight -= 1;
        upstream.batchInFlight -= inBatch;
        this.#drain.ended(this.#clock.now() - takenAt);
        if (failure?.kind === 'busy') this.#lastRefusedAt = this.#clock.now();
        this.#shares.ended(context.accountId);
        end();
        this.#recordOutcome(upstream, failure, context, history);
        const durationMs = performance.now() - startedAt;
        upstream.recorder.finished(failure?.kind ?? 'ok', durationMs / 1000);
        context.observer?.attempted?.({
          upstream: upstream.address,
          region: upstream.region,
          outcome: failure?.kind ?? 'ok',
          durationMs: Math.round(durationMs),
          detail: failure?.detail ?? null,
        });
        this.#waiting.wake();
      },
    });
  }

  #recordOutcome(
    upstream: Upstream,
    failure: UpstreamFailure | undefined,
    { accountId, requestId }: CallContext,
    history: RequestHistory,
  ): void {
    if (failure === undefined) upstream.unfitness = undefined;
    else if (failure.kind === 'unfit') this.#noteUnfit(upstream, failure);
    if (failure === undefined || !MAY_BE_OUT_OF_ORDER.includes(failure.kind)) {
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
    this.#logger.warn(
      { model: this.#slug, upstream: upstream.address, requestId, kind, detail },
      'a call to an upstream failed',
    );
  }

  #noteOvercount(upstream: Upstream, { requestId }: CallContext): void {
    upstream.recorder.overcounted();
    const now = this.#clock.now();
    if (now - upstream.overcountLoggedAt < OVERCOUNT_LOG_MS) return;
    upstream.overcountLoggedAt = now;
    this.#logger.warn(
      { model: this.#slug, upstream: upstream.address, requestId },
      'an upstream counted more tokens than its request and answer can have, which are not billed',
    );
  }

  #noteUnfit(upstream: Upstream, { detail }: UpstreamFailure): void {
    if (upstream.unfitness === undefined) {
      const facts = { model: this.#slug, upstream: upstream.address, problem: detail };
      this.#logger.warn(facts, 'upstream refuses this task, check how it was started');
    }
    upstream.unfitness = detail;
  }
}

const hasRoomForBatches = ({ batchInFlight, batchSlots }: Upstream): boolean => batchInFlight < batchSlots;

/** The least loaded of those with room. */
function leastLoaded(candidates: readonly Upstream[]): Upstream | undefined {
  let best: Upstream | undefined;
  for (const upstream of candidates) {
    if (upstream.hasRoom() && (best === undefined || upstream.load() < best.load())) best = upstream;
  }
  return best;
}
