import type { DiskSpaceStatus } from '@baobab/core/ports/disk-space.ts';

export interface SystemReport {
  version: string;
  region: string;
  startedAt: number;
  /** Why the service cannot take requests; empty when it can. */
  reasons: readonly string[];
  runtime: {
    node: string;
    platform: string;
    arch: string;
    cpus: number;
    memoryBytes: number;
    freeMemoryBytes: number;
    processMemoryBytes: number;
  };
  storeKind: string;
  disk: DiskSpaceStatus;
  /** Settings as in the file, secrets masked. */
  configuration: Record<string, unknown>;
}

/** What operators see of the server. */
export interface SystemService {
  describe(): Promise<SystemReport>;
}
