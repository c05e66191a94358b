import type { CallContext } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FairShares } from '../../admission/fair-shares.ts';
import { chooseByPrefix } from './prefixes.ts';
import type { Upstream } from './upstream.ts';

/** What has happened to one request so far. */
export interface RequestHistory {
  tried: Set<Upstream>;
  /** The first upstream where it failed in a way that it may have caused. */
  failedAt: Upstream | undefined;
  /** Requests with the same one share the start of their prompts. */
  prefix: string | undefined;
}

export interface UpstreamChoiceDependencies {
  slug: string;
  members(): readonly Upstream[];
  shares: FairShares;
}

/** Chooses the upstream of a request. */
export class UpstreamChoice {
  readonly #slug: string;
  readonly #members: () => readonly Upstream[];
  readonly #shares: FairShares;
  /** Where the search for the least loaded upstream starts, so that equally loaded ones take turns. */
  #turn = 0;
  #obstacle: 'all' | 'account' = 'all';

  constructor({ slug, members, shares }: UpstreamChoiceDependencies) {
    this.#slug = slug;
    this.#members = members;
    this.#shares = shares;
  }

  /** Where an upstream takes requests. */
  regions(): string[] {
    const available = this.#members().filter((upstream) => upstream.available());
    return [...new Set(available.map((upstream) => upstream.region))];
  }

  noneAvailable(region: string | undefined): ApiError {
    const served = this.regions();
    const isServed = region === undefined ? served.length > 0 : served.includes(region);
    // They take requests, but not of this account.
    if (isServed) return errors.modelUnavailable(this.#slug, 'it failed on your last requests');
    return region !== undefined && served.length > 0
      ? errors.regionUnavailable(this.#slug, region, served)
      : errors.upstreamsAway(this.#slug, 'none of its upstreams is healthy');
  }

  /** What kept the last request that got no upstream waiting. Others of its account, or all requests for the region. */
  get obstacle(): 'all' | 'account' {
    return this.#obstacle;
  }

  /** Undefined: all candidates are full, or the account has more than its share of them. Throws when there are none. */
  choose(context: CallContext, region: string | undefined, history: RequestHistory): Upstream | undefined {
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
    if (candidates.length === 0) throw this.noneAvailable(region);
    if (!this.#shares.mayStart(context, capacity)) {
      this.#obstacle = 'account';
      return undefined;
    }
    const open = context.priority === 'batch' ? candidates.filter(hasRoomForBatches) : candidates;
    const best = (history.prefix && chooseByPrefix(history.prefix, open)) || leastLoaded(open);
    if (best !== undefined) this.#turn = (upstreams.indexOf(best) + 1) % upstreams.length;
    return best;
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
