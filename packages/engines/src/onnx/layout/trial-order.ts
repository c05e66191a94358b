import type { LayoutShape } from '@baobab/core/engine/driver.ts';

/** What a trial sends to its processes. Plain data. */
export interface TrialOrder {
  model: string;
  rowWiseRanges: boolean;
  candidates: readonly LayoutShape[];
}

/** About what the batcher makes of ordinary inputs. */
export const TRIAL_BATCH = { rows: 2, tokens: 128 };

export interface WorkerOrder extends Omit<TrialOrder, 'candidates'> {
  threads: number;
}

export type FromWorker = { type: 'ready' } | { type: 'done'; tokens: number; ms: number };
