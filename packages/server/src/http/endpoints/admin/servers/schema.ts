import { isoTime } from '@baobab/core/domain/time/dates.ts';
import { type Static, Type } from 'typebox';
import type { KnownServer } from '../../../../services/operators/servers.ts';

export const ServerShape = Type.Object({
  object: Type.Literal('server'),
  id: Type.String({ description: 'Of the process: a server that starts again has another one' }),
  name: Type.String({ description: 'Of the machine, with the number of the worker if there are several' }),
  version: Type.String(),
  commit: Type.Union([Type.String(), Type.Null()], { description: 'null: it does not run from a checkout' }),
  started_at: Type.String(),
  last_seen_at: Type.String({ description: 'Servers write to the database every 5 s' }),
  status: Type.Enum(['ready', 'degraded', 'not ready', 'gone'], {
    description: 'gone: not seen for 15 s, because it was killed or cannot reach the database',
  }),
  problems: Type.Array(Type.Object({ reason: Type.String(), since: Type.String() }), {
    description: 'What is away, and since when',
  }),
  clock_ahead_ms: Type.Integer({ description: 'By how much the clock of its machine is ahead of the database' }),
});

export const serverToWire = (server: KnownServer): Static<typeof ServerShape> => ({
  object: 'server',
  id: server.id,
  name: server.name,
  version: server.version,
  commit: server.commit,
  started_at: isoTime(server.startedAt),
  last_seen_at: isoTime(server.seenAt),
  status: server.status,
  problems: server.problems.map(({ reason, since }) => ({ reason, since: isoTime(since) })),
  clock_ahead_ms: server.clockAheadMs,
});
