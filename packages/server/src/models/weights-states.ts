import type { Clock } from '@baobab/core/ports/clock.ts';
import type { InPlaceWeights } from './in-place-weights.ts';
import { inspect } from './installed.ts';
import type { ModelPaths, StoredModel } from './model-paths.ts';
import { WeightsError } from './weights-error.ts';

export interface WeightsState {
  status: 'present' | 'absent' | 'pulling' | 'unreachable';
  /** Whether a request for the model can succeed now. */
  servable: boolean;
  bytesOnDisk: number;
  totalBytes: number | null;
  /** Why it cannot be served, for operators. May name hosts and paths. */
  reason?: string | undefined;
  /** The same for clients. */
  clientReason?: string | undefined;
  /** What an operator has to do. Undefined: nothing is wrong, or it passes by itself. */
  remedy?: string | undefined;
  /** Milliseconds since 1970. */
  retryAtMs?: number | undefined;
}

export interface WeightsStatesDependencies {
  inPlace: Pick<InPlaceWeights, 'open'>;
  pullOnUse: boolean;
  clock: Clock;
}

const MAX_AGE_MS = 5_000;
const NOT_FETCHED = 'its weights are not here, and models.pull_on_use is off';

/** The state of weights that cannot be had. */
export const unreachable = (failure: WeightsError, model: StoredModel) => ({
  status: 'unreachable' as const,
  servable: false,
  reason: failure.message,
  clientReason: failure.clientReason,
  remedy: failure.remedyFor(model),
});

/** What is on the disk, remembered for a few seconds. */
export function createWeightsStates({ inPlace, pullOnUse, clock }: WeightsStatesDependencies) {
  const known = new Map<string, { state: WeightsState; checkedAtMs: number }>();

  function inspectInPlace(model: StoredModel): WeightsState {
    const local = inPlace.open(model);
    const problem = local.problem();
    const bytes = { bytesOnDisk: local.totalBytes(), totalBytes: local.totalBytes() };
    if (problem === null) return { status: 'present', servable: true, ...bytes };
    return { ...bytes, ...unreachable(new WeightsError('absent', problem), model) };
  }

  function inspectStored(model: StoredModel, paths: ModelPaths): WeightsState {
    const { condition, bytes } = inspect(model, paths);
    if (condition !== 'absent') return { status: 'present', servable: true, bytesOnDisk: bytes, totalBytes: bytes };
    const catalogBytes = (model.source.files ?? []).reduce((sum, file) => sum + (file.bytes ?? Number.NaN), 0);
    const totalBytes = Number.isNaN(catalogBytes) ? null : catalogBytes;
    const absent = { status: 'absent' as const, servable: pullOnUse, bytesOnDisk: 0, totalBytes };
    if (pullOnUse) return absent;
    return { ...absent, reason: NOT_FETCHED, remedy: new WeightsError('absent', NOT_FETCHED).remedyFor(model) };
  }

  return {
    get(model: StoredModel, paths: ModelPaths): WeightsState {
      const last = known.get(paths.id);
      const nowMs = clock.now();
      if (last !== undefined && nowMs - last.checkedAtMs < MAX_AGE_MS) return last.state;
      const state = model.source.kind === 'file' ? inspectInPlace(model) : inspectStored(model, paths);
      known.set(paths.id, { state, checkedAtMs: nowMs });
      return state;
    },
    forget: (paths: ModelPaths): boolean => known.delete(paths.id),
  };
}
