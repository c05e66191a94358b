import { MODALITIES, type ModelEntry } from './model.ts';

export const SERVING_STATUSES = ['ready', 'cold', 'unavailable'] as const;
export type ServingStatus = (typeof SERVING_STATUSES)[number];

type Listed = Pick<ModelEntry, 'slug' | 'modality' | 'starter' | 'specialist'> & { status: ServingStatus };

const rankOf = ({ modality, status, starter, specialist = false }: Listed): number =>
  MODALITIES.indexOf(modality) * 100 +
  (specialist ? 50 : 0) +
  SERVING_STATUSES.indexOf(status) * 10 +
  (starter ? 0 : 1);

/** Many programs use the first model of a list: chat comes first, and of each modality what answers soonest, but for specialists. */
export const compareListed = (one: Listed, other: Listed): number =>
  rankOf(one) - rankOf(other) || (one.slug < other.slug ? -1 : 1);
