import type { ModelEntry, ModelVersion } from '@baobab/core/domain/model.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import type { Secret } from '@baobab/core/ports/secret.ts';
import { steadyClock as clock } from '@baobab/core/runtime/clock.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { createWeightsStore, type StoredModel, type WeightsStore } from '../models/store.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined for versions that only upstreams serve. */
export const storedModel = (entry: ModelEntry, { version, source }: ModelVersion): StoredModel | undefined =>
  source === undefined ? undefined : { slug: entry.slug, version, source };

interface WeightsOptions {
  logger: Pick<Logger, 'info' | 'warn'>;
  env: Environment;
  /** Where it may change. */
  hfToken?: Secret | undefined;
}

export function openWeights(
  config: ResolvedConfig,
  { logger, env, hfToken = undefined }: WeightsOptions,
): WeightsStore {
  return createWeightsStore({
    directory: config.modelsDir,
    hfEndpoint: config.models.hfEndpoint,
    hfToken: hfToken ?? config.models.hfToken,
    mavenRepository: config.models.mavenRepository,
    pullOnUse: config.models.pullOnUse,
    retryUnavailableSeconds: config.models.retryUnavailableSeconds,
    environment: env,
    workingDirectory: process.cwd(),
    clock,
    logger,
  });
}
