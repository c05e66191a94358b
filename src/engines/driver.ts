import type { EngineSpec } from '../domain/model.ts';
import type { EngineModel } from './engine.ts';

/** All a driver needs to load one model. Plain data: it crosses the process boundary. */
export interface LoadSpec {
  /** Slug and version, for messages and logs. */
  slug: string;
  version: string;
  engine: EngineSpec;
  /** Absolute path of the directory that holds the verified files. */
  directory: string;
  contextLength: number;
  dimensions: number | null;
  maxOutputTokens: number | null;
  /** Compute threads for this process. */
  threads: number;
  /** Sequences a generating model decodes side by side. */
  parallelSequences: number;
}

/**
 * A driver module exports `load`. It runs inside the engine process, so it may use native code, block and crash; it never
 * sees HTTP, the database or the configuration. Failures that a client should see are thrown as `ApiError`.
 */
export interface Driver {
  load(spec: LoadSpec): Promise<EngineModel>;
}
