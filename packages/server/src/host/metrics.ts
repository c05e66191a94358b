import type { ComputeDevice, Priority } from '@baobab/core/engine/engine.ts';

/** What the hosts report. `model` is `slug@version`. */
export interface EngineMetrics {
  loaded(model: string, seconds: number): void;
  queueDepth(model: string, waiting: number): void;
  queueWaited(model: string, seconds: number, priority: Priority): void;
  /** Inputs in one call to an engine process. */
  batchSize(model: string, inputs: number): void;
  tokens(model: string, used: { input: number; output: number }): void;
  restarted(model: string, reason: string): void;
  /** Memory of all processes of the model; 0 when it was unloaded. */
  residentBytes(model: string, bytes: number): void;
  /** What a loaded model runs on; undefined when it was unloaded. */
  device(model: string, device: ComputeDevice | undefined): void;
}

export const noMetrics: EngineMetrics = {
  loaded() {},
  queueDepth() {},
  queueWaited() {},
  batchSize() {},
  tokens() {},
  restarted() {},
  residentBytes() {},
  device() {},
};
