import type { ServerHeartbeat, ServerProblem, ServerRepository } from '@baobab/core/ports/servers.ts';
import type { SqlDatabase } from './database.ts';

export const sqlServers = ({ read, write }: SqlDatabase): ServerRepository => ({
  async beat({ id, name, version, commit, startedAt, seenAt, readiness, problems, clockAheadMs }, forgetBefore) {
    const said = { seen_at_ms: seenAt, readiness, problems: JSON.stringify(problems), clock_ahead_ms: clockAheadMs };
    await write(
      [
        read
          .insertInto('servers')
          .values({ id, name, version, commit_id: commit, started_at_ms: startedAt, ...said })
          .onConflict((conflict) => conflict.column('id').doUpdateSet(said))
          .returning('id'),
        read.deleteFrom('servers').where('seen_at_ms', '<', forgetBefore),
      ],
      { byRowLocks: true },
    );
  },

  async list() {
    const rows = await read.selectFrom('servers').selectAll().orderBy('name').orderBy('started_at_ms').execute();
    return rows.map((row) => ({
      id: row.id,
      name: row.name,
      version: row.version,
      commit: row.commit_id,
      startedAt: row.started_at_ms,
      seenAt: row.seen_at_ms,
      readiness: row.readiness as ServerHeartbeat['readiness'],
      problems: JSON.parse(row.problems) as ServerProblem[],
      clockAheadMs: row.clock_ahead_ms,
    }));
  },

  async remove(id) {
    await write([read.deleteFrom('servers').where('id', '=', id)], { byRowLocks: true });
  },
});
