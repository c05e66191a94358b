import type { EngineReport } from '@baobab/core/engine/report.ts';

export interface WeightsReport {
  status: 'present' | 'absent' | 'pulling' | 'unreachable';
  bytesOnDisk: number;
  totalBytes: number | null;
  reason: string | null;
  retryAt: number | null;
}

/** What an operator sees of one version of a model. */
export interface OperatedEngine extends Omit<EngineReport, 'model'> {
  slug: string;
  version: string;
  driver: string;
  tokensPerSecond: { input: number; output: number };
  /** Null: only upstreams serve it. */
  weights: WeightsReport | null;
}

/** What operators see of the engines, and may do with them. A reference is a slug with an optional pin. */
export interface EngineControl {
  list(): Promise<OperatedEngine[]>;
  /** Starts to fetch the weights. Throws 404, and 400 for a model that only upstreams serve, like the two below. */
  pull(reference: string): Promise<OperatedEngine>;
  /** Starts to load the model. */
  load(reference: string): Promise<OperatedEngine>;
  /** Lets running requests end, however long they take, then frees the memory. Later requests wait, and load the model again. */
  unload(reference: string): Promise<OperatedEngine>;
}
