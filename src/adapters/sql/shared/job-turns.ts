import type { JobTurns } from '../../../ports/job-turns.ts';
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
            .where('job_turns.next_at_ms', '<=', now),
        )
        .returning('job'),
    ]);
    return rows.length > 0;
  },
});
