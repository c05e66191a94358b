import type { BatchRepository } from '@baobab/core/ports/batches.ts';
import type { SqlDatabase } from '../database.ts';
import { sqlBatchClaims } from './batch-claims.ts';
import { sqlBatchProgress } from './batch-progress.ts';
import { sqlBatchRecords } from './batch-records.ts';

export const sqlBatches = (database: SqlDatabase): BatchRepository => ({
  ...sqlBatchRecords(database),
  ...sqlBatchClaims(database),
  ...sqlBatchProgress(database),
});
