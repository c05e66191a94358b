import type { FailureScope } from './failure.ts';
import type { Lease } from './routing/lease.ts';
import type { Router } from './routing/router.ts';

/** What every capability of one remote model works with. */
export interface RemoteScope {
  slug: string;
  contextLength: number;
  router: Router;
  /** The caller's pin. */
  region: string | undefined;
  /** How many inputs every address takes in one call. */
  inputsPerCall(): number;
}

export function scopeAt(remote: RemoteScope, lease: Lease, param: string): FailureScope {
  return { slug: remote.slug, upstreamName: lease.upstream.model, contextLength: remote.contextLength, param };
}
