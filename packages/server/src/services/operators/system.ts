import type { DiskSpaceStatus } from '@baobab/core/ports/disk-space.ts';

/** Whether the kernel confines the processes that read files of clients, as the last of them reported. Undefined: none has run yet. */
export interface ReaderSeal {
  sealed: boolean | undefined;
  /** Why not. */
  reason: string | undefined;
}

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
  readers: ReaderSeal;
  disk: DiskSpaceStatus;
  /** Settings as in the file, secrets masked. */
  configuration: Record<string, unknown>;
}

/** What operators see of the server. */
export interface SystemService {
  describe(): Promise<SystemReport>;
}
