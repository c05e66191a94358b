import { may, type Operation } from '@baobab/core/domain/operations.ts';
import { matchesPattern } from '@baobab/core/domain/slug.ts';
import type { Model } from '../../api/types.ts';

/** Modalities whose requests are JSON, with their operation. The first are preferred. */
const OPERATION_OF: Partial<Record<string, Operation>> = {
  chat: 'chat.completions.create',
  embedding: 'embeddings.create',
  rerank: 'rerank.create',
};
const STATUSES = ['ready', 'cold', 'unavailable'];

export interface KeyUse {
  /** Undefined: every scope. */
  scopes?: readonly string[] | undefined;
  /** Patterns of slugs. Empty: all models. */
  models?: readonly string[] | undefined;
}

type Candidate = Pick<Model, 'id' | 'modality' | 'status'>;

/** The model for the first request of a key: one that it may use, and that can answer. */
export function exampleModel<T extends Candidate>(all: readonly T[], { scopes, models = [] }: KeyUse): T | undefined {
  const modalities = Object.keys(OPERATION_OF);
  const rank = ({ modality, status }: T) =>
    (status === 'unavailable' ? 100 : 0) + modalities.indexOf(modality) * 10 + STATUSES.indexOf(status);
  return all
    .filter(({ id, modality }) => {
      const operation = OPERATION_OF[modality];
      if (operation === undefined || (scopes !== undefined && !may({ scopes }, operation))) return false;
      return models.length === 0 || models.some((pattern) => matchesPattern(id, pattern));
    })
    .toSorted((left, right) => rank(left) - rank(right))[0];
}
