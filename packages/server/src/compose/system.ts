import { availableParallelism, freemem, totalmem } from 'node:os';
import type { DiskSpace } from '@baobab/core/ports/disk-space.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { maskedConfig } from '../config/secrets.ts';
import type { ReaderSeal, SystemService } from '../services/operators/system.ts';
import { VERSION } from './storage.ts';

export interface SystemDependencies {
  config: ResolvedConfig;
  space: DiskSpace;
  readers: ReaderSeal;
  startedAt: number;
  unready(): Promise<string[]>;
}

export function createSystem({ config, space, readers, startedAt, unready }: SystemDependencies): SystemService {
  return {
    async describe() {
      const [disk, reasons] = await Promise.all([space.status(), unready()]);
      const limit = process.constrainedMemory();
      return {
        version: VERSION,
        region: config.region,
        startedAt,
        reasons,
        runtime: {
          node: process.version,
          platform: process.platform,
          arch: process.arch,
          cpus: availableParallelism(),
          memoryBytes: limit > 0 && limit < totalmem() ? limit : totalmem(),
          freeMemoryBytes: freemem(),
          processMemoryBytes: process.memoryUsage.rss(),
        },
        storeKind: config.store === undefined ? 'sqlite' : 'postgres',
        readers,
        disk,
        configuration: maskedConfig(config),
      };
    },
  };
}
