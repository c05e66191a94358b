import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';

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
