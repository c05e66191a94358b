import type { Migration } from 'kysely/migration';
import * as identity from './0001-identity.ts';
import * as ledger from './0002-ledger.ts';
import * as files from './0010-files.ts';
import * as idempotency from './0011-idempotency.ts';
import * as batches from './0012-batches.ts';
import * as millisecondTimes from './0013-millisecond-times.ts';
import * as storedAmounts from './0014-stored-amounts.ts';
import * as batchLeases from './0015-batch-leases.ts';
import * as attachmentLeases from './0016-attachment-leases.ts';
import * as idempotencyAmounts from './0017-idempotency-amounts.ts';
import * as keyAddresses from './0018-key-addresses.ts';
import * as activeBatches from './0019-active-batches.ts';
import * as accountStates from './0020-account-states.ts';
import * as keyRotations from './0021-key-rotations.ts';
import * as accountRetention from './0022-account-retention.ts';
import * as accountConcurrency from './0023-account-concurrency.ts';
import * as accountAliases from './0024-account-aliases.ts';
import * as jobTurns from './0027-job-turns.ts';
import * as responses from './0028-responses.ts';
import * as responseEvents from './0030-response-events.ts';
import * as keyChanges from './0035-key-changes.ts';
import * as batchSlices from './batches/0031-batch-slices.ts';
import * as expiredLines from './batches/0034-expired-lines.ts';
import * as resultLifetime from './batches/0038-result-lifetime.ts';
import * as sessions from './console/0025-sessions.ts';
import * as requestLog from './console/0026-request-log.ts';
import * as requestHours from './console/0029-request-hours.ts';
import * as requestTexts from './console/0033-request-texts.ts';
import * as auditLog from './console/0036-audit-log.ts';
import * as auditPairs from './console/0037-audit-pairs.ts';
import * as auditIndexes from './console/0039-audit-indexes.ts';
import * as usageSums from './ledger/0032-usage-sums.ts';
import * as groupedSums from './ledger/0040-grouped-sums.ts';

/**
 * Run in the order of their names, forwards only. Numbers only sort: 0003 to 0009 never existed. A released migration is never
 * edited, and a new one sorts after all released ones.
 */
export const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001-identity': identity,
  '0002-ledger': ledger,
  '0010-files': files,
  '0011-idempotency': idempotency,
  '0012-batches': batches,
  '0013-millisecond-times': millisecondTimes,
  '0014-stored-amounts': storedAmounts,
  '0015-batch-leases': batchLeases,
  '0016-attachment-leases': attachmentLeases,
  '0017-idempotency-amounts': idempotencyAmounts,
  '0018-key-addresses': keyAddresses,
  '0019-active-batches': activeBatches,
  '0020-account-states': accountStates,
  '0021-key-rotations': keyRotations,
  '0022-account-retention': accountRetention,
  '0023-account-concurrency': accountConcurrency,
  '0024-account-aliases': accountAliases,
  '0025-sessions': sessions,
  '0026-request-log': requestLog,
  '0027-job-turns': jobTurns,
  '0028-responses': responses,
  '0029-request-hours': requestHours,
  '0030-response-events': responseEvents,
  '0031-batch-slices': batchSlices,
  '0032-usage-sums': usageSums,
  '0033-request-texts': requestTexts,
  '0034-expired-lines': expiredLines,
  '0035-key-changes': keyChanges,
  '0036-audit-log': auditLog,
  '0037-audit-pairs': auditPairs,
  '0038-result-lifetime': resultLifetime,
  '0039-audit-indexes': auditIndexes,
  '0040-grouped-sums': groupedSums,
};
