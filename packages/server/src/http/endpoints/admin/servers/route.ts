import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import type { ServersService } from '../../../../services/operators/servers.ts';
import { commonErrors } from '../../../answer/error-answer.ts';
import { config, tags } from '../admin-routes.ts';
import { ServerShape, serverToWire } from './schema.ts';

const ServerList = Type.Object({ object: Type.Literal('list'), data: Type.Array(ServerShape) });

export const adminServersRoutes: FastifyPluginAsyncTypebox<{ servers: ServersService }> = async (
  server,
  { servers },
) => {
  server.get(
    '/admin/servers',
    {
      config: { ...config, operation: 'admin.servers.list' },
      schema: {
        summary: 'List the servers on the database: version, health, what is away and since when',
        tags,
        response: { 200: ServerList, ...commonErrors },
      },
    },
    async () => ({ object: 'list' as const, data: (await servers.list()).map(serverToWire) }),
  );
};
