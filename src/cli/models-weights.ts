import type { StoredModel, WeightsStore } from '../models/store.ts';
import { WeightsError } from '../models/weights-error.ts';
import type { Clock } from '../ports/clock.ts';
import { formatBytes, formatDuration, type ProgressView } from './progress.ts';

/** The actions of `baobab models` that work on weights. */
export interface WeightsCommandContext {
  store: WeightsStore;
  models: readonly StoredModel[];
  progress: ProgressView;
  clock: Clock;
  print(text: string): void;
  signal: AbortSignal;
}

const labelOf = ({ slug, version }: StoredModel): string => `${slug}@${version}`;

/** Pulls one model after the other and goes on after a failure. Returns how many failed. */
export async function pullWeights({ store, models, progress, clock, signal }: WeightsCommandContext): Promise<number> {
  let failed = 0;
  for (const model of models) {
    const label = labelOf(model);
    const before = store.state(model);
    if (before.status === 'present') {
      progress.finish(`${label}: already here, ${formatBytes(before.bytesOnDisk)}`);
      continue;
    }
    const startedMs = clock.now();
    try {
      await store.pull(model, { signal, onProgress: (event) => progress.update(label, event) });
      const seconds = (clock.now() - startedMs) / 1000;
      progress.finish(`${label}: ${formatBytes(store.state(model).bytesOnDisk)} in ${formatDuration(seconds)}`);
    } catch (error) {
      if (!(error instanceof WeightsError)) throw error;
      failed += 1;
      progress.finish(`${label}: ${error.message}`);
    }
  }
  return failed;
}

/** Returns how many models have missing or changed files. Models that are not installed do not count. */
export async function verifyWeights({ store, models, print, signal }: WeightsCommandContext): Promise<number> {
  let failed = 0;
  for (const model of models) {
    if (store.state(model).status !== 'present') continue;
    try {
      const files = await store.verify(model, { signal });
      const broken = files.filter(({ status }) => status !== 'ok');
      if (broken.length > 0) failed += 1;
      const found = broken.map(
        ({ as, status }) => `${as} ${status === 'missing' ? 'is missing' : 'was changed and is removed'}`,
      );
      print(`${labelOf(model)}: ${found.length === 0 ? `files verified: ${files.length}` : found.join(', ')}`);
    } catch (error) {
      if (!(error instanceof WeightsError)) throw error;
      failed += 1;
      print(`${labelOf(model)}: ${error.message}`);
    }
  }
  return failed;
}

export async function removeWeights({ store, models, print }: WeightsCommandContext): Promise<void> {
  for (const model of models) {
    const { freedBytes } = await store.remove(model);
    print(`${labelOf(model)}: ${freedBytes === 0 ? 'nothing to remove' : `${formatBytes(freedBytes)} removed`}`);
  }
}
