import type { ModelEntry, ModelVersion } from '../../domain/model.ts';
import type { ComputeDevice } from '../engine.ts';

export interface Model {
  entry: ModelEntry;
  version: ModelVersion;
}

export const modelName = ({ entry, version }: Model) => `${entry.slug}@${version.version}`;

/** The part of the weights store that engines need. */
export interface Weights {
  /** Fetches and verifies what is missing. Failures that a client may see are `ApiError`s. */
  ensure(model: Model, options: { signal: AbortSignal }): Promise<{ directory: string }>;
}

export type ModelStatus = 'ready' | 'loading' | 'cold' | 'unavailable';

export interface ModelReport {
  model: string;
  status: ModelStatus;
  reason?: string;
  pids: readonly number[];
  memoryBytes: number;
  /** What it runs on; null when it is not loaded. */
  device: ComputeDevice | null;
  /** Milliseconds since 1970. */
  loadedAt: number | null;
  loadMs: number | null;
  inFlight: number;
  queueDepth: number;
}
