import { isAbsolute } from 'node:path';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { StoredModel, VerifiedFile, WeightsStore } from '../../models/store.ts';
import { WeightsError } from '../../models/weights-error.ts';
import { formatBytes, formatDuration, type ProgressView, sayWhenSlow } from '../progress.ts';

/** The actions of `baobab models` that work on weights. */
export interface WeightsCommandContext {
  store: WeightsStore;
  models: readonly StoredModel[];
  /** The operator named these models, so each gets a line. */
  named?: boolean | undefined;
  progress: ProgressView;
  clock: Clock;
  print(text: string): void;
  warn?: ((text: string) => void) | undefined;
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

function verificationText(files: readonly VerifiedFile[]): string {
  const named = (status: VerifiedFile['status']) => files.filter((file) => file.status === status);
  const verified = named('ok').length;
  const names = (status: VerifiedFile['status']) => named(status).map(({ as }) => as);
  const [unknown, unchanged] = [names('unknown'), names('unchanged')];
  return [
    ...named('missing').map(({ as }) => `${as} is missing`),
    ...named('mismatch').map(({ as }) => `${as} was changed and is removed`),
    ...(verified > 0 ? [`files verified: ${verified}`] : []),
    ...(unknown.length > 0
      ? [`not verified: no checksum known of ${unknown.join(', ')}; recorded now, so that later damage is found`]
      : []),
    ...(unchanged.length > 0
      ? [`not verified: no checksum known of ${unchanged.join(', ')}; unchanged since it was first used`]
      : []),
  ].join(', ');
}

/** Returns how many models have missing or changed files. Models that are not installed do not count. */
export async function verifyWeights(context: WeightsCommandContext): Promise<number> {
  const { store, models, named, print, warn = () => {}, signal } = context;
  let failed = 0;
  for (const model of models) {
    const { status, reason, bytesOnDisk } = store.state(model);
    if (status !== 'present') {
      if (named) print(`${labelOf(model)}: nothing to verify: ${reason ?? 'its weights are not here'}`);
      continue;
    }
    try {
      const work = store.verify(model, { signal });
      const files = await sayWhenSlow(`hashing ${formatBytes(bytesOnDisk)} of ${labelOf(model)}`, work, warn);
      if (files.some(({ status }) => status === 'missing' || status === 'mismatch')) failed += 1;
      print(`${labelOf(model)}: ${verificationText(files)}`);
    } catch (error) {
      if (!(error instanceof WeightsError)) throw error;
      failed += 1;
      print(`${labelOf(model)}: ${error.message}`);
    }
  }
  return failed;
}

/** Returns how many models cannot be removed: files that are used in place stay. */
export async function removeWeights({ store, models, print }: WeightsCommandContext): Promise<number> {
  let failed = 0;
  for (const model of models) {
    const { source } = model;
    if (source.kind === 'file') {
      failed += 1;
      const reason = isAbsolute(source.path)
        ? `its weights are used where they are, and stay: ${source.path}`
        : 'it ships with Baobab and cannot be removed';
      print(`${labelOf(model)}: ${reason}`);
      continue;
    }
    const { freedBytes } = await store.remove(model);
    print(`${labelOf(model)}: ${freedBytes === 0 ? 'nothing to remove' : `${formatBytes(freedBytes)} removed`}`);
  }
  return failed;
}
