import { sqlAccounts } from './accounts.ts';
import { sqlAuditLog } from './audit/audit-log.ts';
import { sqlBatchSlices } from './batches/batch-slices.ts';
import { sqlBatches } from './batches/batches.ts';
import type { SqlDatabase } from './database.ts';
import { sqlFiles } from './files.ts';
import { sqlIdempotency } from './idempotency/idempotency.ts';
import { sqlJobTurns } from './job-turns.ts';
import { sqlKeys } from './keys/keys.ts';
import { sqlLedger } from './ledger.ts';
import { sqlModelLifecycles } from './model-lifecycles.ts';
import { sqlRequestLog } from './request-log.ts';
import { sqlRequestTexts } from './request-texts.ts';
import { sqlConversations } from './responses/conversations.ts';
import { sqlResponses } from './responses/responses.ts';
import { sqlRevisions } from './revisions.ts';
import { sqlSessions } from './sessions.ts';
import { sqlUsage } from './usage.ts';

/** Every repository over one SQL database, whichever dialect it speaks. */
export const createSqlRepositories = (database: SqlDatabase) => ({
  accounts: sqlAccounts(database),
  keys: sqlKeys(database),
  lifecycles: sqlModelLifecycles(database),
  revisions: sqlRevisions(database),
  ledger: sqlLedger(database),
  usage: sqlUsage(database),
  idempotency: sqlIdempotency(database),
  files: sqlFiles(database),
  batches: sqlBatches(database),
  batchSlices: sqlBatchSlices(database),
  sessions: sqlSessions(database),
  requests: sqlRequestLog(database),
  requestTexts: sqlRequestTexts(database),
  jobTurns: sqlJobTurns(database),
  responses: sqlResponses(database),
  conversations: sqlConversations(database),
  audit: sqlAuditLog(database),
});
