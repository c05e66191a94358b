import type { ComputeDevice } from '../../engines/engine.ts';

export interface WeightsReport {
  status: 'present' | 'absent' | 'pulling' | 'unreachable';
  bytesOnDisk: number;
  totalBytes: number | null;
  reason: string | null;
  retryAt: number | null;
}

export interface UpstreamReport {
  address: string;
  kind: string;
  region: string;
  healthy: boolean;
  breaker: string;
  inFlight: number;
  maxConcurrency: number;
  problem: string | null;
  lastError: string | null;
}

/** One version of a model, and everything that runs it. */
export interface EngineReport {
  slug: string;
  version: string;
  driver: string;
  status: 'ready' | 'loading' | 'cold' | 'unavailable';
  reason: string | null;
  processIds: readonly number[];
  memoryBytes: number;
  /** What it runs on; null when it is not loaded here. */
  device: ComputeDevice | null;
  loadedAt: number | null;
  loadMs: number | null;
  inFlight: number;
  queueDepth: number;
  tokensPerSecond: { input: number; output: number };
  /** Null: only upstreams serve it. */
  weights: WeightsReport | null;
  upstreams: readonly UpstreamReport[];
}

/** What operators see of the engines, and may do with them. A reference is a slug with an optional pin. */
export interface EngineControl {
  list(): Promise<EngineReport[]>;
  /** Starts to fetch the weights. Throws 404, and 400 for a model that only upstreams serve, like the two below. */
  pull(reference: string): Promise<EngineReport>;
  /** Starts to load the model. */
  load(reference: string): Promise<EngineReport>;
  /** Lets running requests end, then frees the memory. The next request loads the model again. */
  unload(reference: string): Promise<EngineReport>;
}
