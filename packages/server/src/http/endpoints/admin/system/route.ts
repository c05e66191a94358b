import { isoTime } from '@baobab/core/domain/time/dates.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { SystemService } from '../../../../services/operators/system.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { config, tags } from '../admin-routes.ts';
import { SystemShape } from './schema.ts';

export const adminSystemRoutes: FastifyPluginAsyncTypebox<{ system: SystemService }> = async (server, { system }) => {
  server.get(
    '/admin/system',
    {
      config: { ...config, operation: 'admin.system.get' },
      schema: {
        summary: 'Retrieve the version, health, machine and settings of this server',
        tags,
        response: { 200: SystemShape, ...commonErrors },
      },
    },
    async () => {
      const { version, region, startedAt, reasons, runtime, storeKind, readers, disk, configuration } =
        await system.describe();
      return {
        object: 'system' as const,
        version,
        region,
        started_at: isoTime(startedAt),
        ready: reasons.length === 0,
        reasons: [...reasons],
        runtime: {
          node: runtime.node,
          platform: runtime.platform,
          arch: runtime.arch,
          cpus: runtime.cpus,
          memory_bytes: runtime.memoryBytes,
          free_memory_bytes: runtime.freeMemoryBytes,
          process_memory_bytes: runtime.processMemoryBytes,
        },
        store: { kind: storeKind },
        readers: { sealed: readers.sealed ?? null, reason: readers.reason ?? null },
        disk: { free_bytes: disk.freeBytes, reserve_bytes: disk.reserveBytes, low: disk.isLow },
        configuration,
      };
    },
  );
};
