import { join } from 'node:path';
import type { SourceSpec } from '@baobab/core/domain/model.ts';
import { WeightsError } from './weights-error.ts';

/** One version of a model and the source of its weights. */
export interface StoredModel {
  readonly slug: string;
  readonly version: string;
  readonly source: SourceSpec;
}

export interface ModelPaths {
  /** Key of the model in this store, also usable as a file name. */
  readonly id: string;
  /** Verified files, each under its `as` name. Created by one rename. */
  readonly directory: string;
  /** Files of an unfinished pull. */
  readonly staging: string;
  readonly lock: string;
}

export const MANIFEST_NAME = '.baobab.json';
export const STAGING_NAME = '.staging';
export const LOCKS_NAME = '.locks';

/** No leading dot, so that no name is `..` or one of the store's own files. */
const SEGMENT = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/;
/** Files of other programs may have spaces and letters of any language in their names. */
const FILE_SEGMENT = /^[^./\\\p{C}][^/\\\p{C}]{0,199}$/u;

export function modelPaths(storeDirectory: string, model: { slug: string; version: string }): ModelPaths {
  const segments = [...model.slug.split('/'), model.version];
  if (segments.length !== 3 || !segments.every((segment) => SEGMENT.test(segment))) {
    throw new WeightsError('invalid', `'${model.slug}@${model.version}' cannot name a directory of weights`);
  }
  const [provider = '', name = '', version = ''] = segments;
  const id = `${provider}+${name}@${version}`;
  return {
    id,
    directory: join(storeDirectory, provider, name, version),
    staging: join(storeDirectory, STAGING_NAME, id),
    lock: join(storeDirectory, LOCKS_NAME, id),
  };
}

/** Lock of the models that have the same largest file. Undefined without a checksum in the catalog. */
export function contentLock(storeDirectory: string, { source }: StoredModel): string | undefined {
  const [largest] = (source.files ?? []).toSorted((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0));
  return largest?.sha256 && join(storeDirectory, LOCKS_NAME, `sha256-${largest.sha256}`);
}

/** A path inside `directory`. Refuses names that would leave it. */
export function placeInside(directory: string, as: string): string {
  const segments = as.split('/');
  if (segments.length > 8 || !segments.every((segment) => FILE_SEGMENT.test(segment))) {
    throw new WeightsError('invalid', `'${as}' is not a usable file name inside a model's directory`);
  }
  return join(directory, ...segments);
}
