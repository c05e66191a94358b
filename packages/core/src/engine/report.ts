import type { ComputeDevice } from './engine.ts';

/** A version of a model, and what runs it for this server: engine processes on this machine, and upstreams. */
export interface EngineReport {
  /** `slug@version` */
  model: string;
  status: 'ready' | 'loading' | 'unloading' | 'cold' | 'unavailable';
  reason: string | null;
  processIds: readonly number[];
  memoryBytes: number;
  /**
   * An estimate of the most that it takes here, without copies while contexts grow, and the part of that for contexts, which is taken when
   * requests need it. 0 when it is not loaded here.
   */
  plannedBytes: number;
  contextBytes: number;
  /** What it runs on; null when it is not loaded here. */
  device: ComputeDevice | null;
  /** Milliseconds since 1970. */
  loadedAt: number | null;
  loadMs: number | null;
  inFlight: number;
  queueDepth: number;
  upstreams: readonly UpstreamHealth[];
}

/** A model that nothing runs and nothing has asked for. */
export const idleEngine = (model: string, status: EngineReport['status'] = 'cold'): EngineReport => ({
  model,
  status,
  reason: null,
  processIds: [],
  memoryBytes: 0,
  plannedBytes: 0,
  contextBytes: 0,
  device: null,
  loadedAt: null,
  loadMs: null,
  inFlight: 0,
  queueDepth: 0,
  upstreams: [],
});

export interface UpstreamHealth {
  /** Position in the configuration, among the upstreams of the model. */
  index: number;
  /** Host and port, without credentials. */
  address: string;
  kind: string;
  region: string;
  /** It takes requests. */
  healthy: boolean;
  /** It does not list the model, or was not started for its requests. It may take requests all the same. */
  misconfigured: boolean;
  /** State of its circuit breaker. */
  breaker: string;
  inFlight: number;
  maxConcurrency: number;
  /** Why it takes no requests, or what is wrong with its configuration. */
  problem: string | undefined;
  lastError: string | undefined;
}
