import type { UpstreamFailureKind } from '@baobab/core/domain/attempts.ts';
import type { UpstreamHealth } from '@baobab/core/engine/report.ts';

export interface UpstreamLabels {
  /** `slug@version` */
  model: string;
  /** Host and port, without credentials. */
  upstream: string;
}

/** Counts what happens at one upstream. */
export interface UpstreamRecorder {
  /** A call has ended. */
  finished(outcome: 'ok' | UpstreamFailureKind, seconds: number): void;
  /** This upstream was called because an earlier attempt had failed. */
  retried(): void;
  /** An answer had token counts that are not possible. */
  overcounted(): void;
  /** The upstream is no longer used. */
  removed(): void;
}

export interface UpstreamMetrics {
  /** Called once for each upstream. `health` is read whenever the metrics are collected. */
  addUpstream(labels: UpstreamLabels, health: () => UpstreamHealth): UpstreamRecorder;
  /** Called once for each model. */
  addQueue(model: string, waiting: () => number): void;
}
