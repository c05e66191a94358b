import type { IdempotencyRepository } from '@baobab/core/ports/idempotency.ts';
import type { SqlDatabase } from '../database.ts';
import { sqlRecordLeases } from './record-leases.ts';
import { sqlRecordRemoval } from './record-removal.ts';
import { sqlRecordRuns } from './record-runs.ts';

export const sqlIdempotency = (database: SqlDatabase): IdempotencyRepository => ({
  ...sqlRecordRuns(database),
  ...sqlRecordLeases(database),
  ...sqlRecordRemoval(database),
});
