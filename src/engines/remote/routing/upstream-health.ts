import type { UpstreamConfig } from '../../../config/schema.ts';
import type { BreakerState } from './breaker.ts';

/** The state of an upstream, for operators and metrics. */
export interface UpstreamHealth {
  /** Position in the configuration, among the upstreams of the model. */
  index: number;
  /** Host and port, without credentials. */
  address: string;
  kind: UpstreamConfig['kind'];
  region: string;
  /** It takes requests. */
  healthy: boolean;
  /** It does not list the model, or was not started for its requests. It may take requests all the same. */
  misconfigured: boolean;
  breaker: BreakerState;
  inFlight: number;
  maxConcurrency: number;
  /** Why it takes no requests, or what is wrong with its configuration. */
  problem: string | undefined;
  lastError: string | undefined;
}
