import type { SchemaMigration } from '../../shared/migrator.ts';
import * as initial from './0001-initial.ts';
import * as sessions from './0002-sessions.ts';
import * as requestLog from './0003-request-log.ts';
import * as jobTurns from './0004-job-turns.ts';
import * as responses from './0005-responses.ts';
import * as requestHours from './0006-request-hours.ts';
import * as responseEvents from './0007-response-events.ts';
import * as batchSlices from './0008-batch-slices.ts';
import * as usageSums from './0009-usage-sums.ts';
import * as requestTexts from './0010-request-texts.ts';
import * as ledgerMonths from './0011-ledger-months.ts';
import * as expiredLines from './0012-expired-lines.ts';
import * as keyChanges from './0013-key-changes.ts';
import * as quartersByPeriod from './0014-quarters-by-period.ts';
import * as auditLog from './0015-audit-log.ts';
import * as auditPairs from './0016-audit-pairs.ts';
import * as resultLifetime from './0017-result-lifetime.ts';
import * as auditIndexes from './0018-audit-indexes.ts';

/**
 * Run in the order of their names, forwards only. A released migration is never edited, and a new one sorts after all released ones.
 * An index on a table that may be large is built with `buildIndex`, in a migration of its own that is marked `concurrently`.
 */
export const MIGRATIONS: Readonly<Record<string, SchemaMigration>> = {
  '0001-initial': initial,
  '0002-sessions': sessions,
  '0003-request-log': requestLog,
  '0004-job-turns': jobTurns,
  '0005-responses': responses,
  '0006-request-hours': requestHours,
  '0007-response-events': responseEvents,
  '0008-batch-slices': batchSlices,
  '0009-usage-sums': usageSums,
  '0010-request-texts': requestTexts,
  '0011-ledger-months': ledgerMonths,
  '0012-expired-lines': expiredLines,
  '0013-key-changes': keyChanges,
  '0014-quarters-by-period': quartersByPeriod,
  '0015-audit-log': auditLog,
  '0016-audit-pairs': auditPairs,
  '0017-result-lifetime': resultLifetime,
  '0018-audit-indexes': auditIndexes,
};
