import type { JobTurns } from '@baobab/core/ports/job-turns.ts';
import type { SqlDatabase } from './database.ts';

export const sqlJobTurns = ({ read, write }: SqlDatabase): JobTurns => ({
  async take(job, { now, everyMs }) {
    const [{ rows }] = await write([
      read
        .insertInto('job_turns')
        .values({ job, next_at_ms: now + everyMs })
        .onConflict((conflict) =>
          conflict
            .column('job')
            .doUpdateSet({ next_at_ms: now + everyMs })
            // One that is further away was given by a clock that has been set back since.
            .where(({ eb, or }) =>
              or([eb('job_turns.next_at_ms', '<=', now), eb('job_turns.next_at_ms', '>', now + 2 * everyMs)]),
            ),
        )
        .returning('job'),
    ]);
    return rows.length > 0;
  },
});
