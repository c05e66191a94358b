import type { JobTurns } from '@baobab/core/ports/job-turns.ts';
import type { ModelLifecycleRepository } from '@baobab/core/ports/repositories.ts';
import type { Session, SessionRepository } from '@baobab/core/ports/sessions.ts';
import { sqlAccounts } from './accounts.ts';
import { insertAuditEntry, sqlAuditLog } from './audit/audit-log.ts';
import { sqlBatchSlices } from './batches/batch-slices.ts';
import { sqlBatches } from './batches/batches.ts';
import type { SqlDatabase } from './database.ts';
import { sqlFiles } from './files.ts';
import { sqlIdempotency } from './idempotency/idempotency.ts';
import { sqlKeys } from './keys.ts';
import { sqlLedger } from './ledger.ts';
import { sqlRequestLog } from './request-log.ts';
import { sqlRequestTexts } from './request-texts.ts';
import { sqlConversations } from './responses/conversations.ts';
import { sqlResponses } from './responses/responses.ts';
import { bumpRevision, sqlRevisions } from './revisions.ts';
import { sqlServers } from './servers.ts';
import type { SessionsTable } from './tables.ts';
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
  servers: sqlServers(database),
  responses: sqlResponses(database),
  conversations: sqlConversations(database),
  audit: sqlAuditLog(database),
});

const sqlJobTurns = ({ read, write }: SqlDatabase): JobTurns => ({
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

function sqlModelLifecycles({ read, write }: SqlDatabase): ModelLifecycleRepository {
  return {
    async list() {
      const rows = await read.selectFrom('model_lifecycles').selectAll().orderBy('slug').orderBy('version').execute();
      return rows.map((row) => ({
        slug: row.slug,
        version: row.version,
        noticeAt: row.notice_at_ms,
        deprecatedAt: row.deprecated_at_ms,
        retiredAt: row.retired_at_ms,
      }));
    },
    async save(lifecycle, entry) {
      const changes = {
        notice_at_ms: lifecycle.noticeAt,
        deprecated_at_ms: lifecycle.deprecatedAt,
        retired_at_ms: lifecycle.retiredAt,
      };
      await write([
        read
          .insertInto('model_lifecycles')
          .values({ slug: lifecycle.slug, version: lifecycle.version, ...changes })
          .onConflict((conflict) => conflict.columns(['slug', 'version']).doUpdateSet(changes)),
        insertAuditEntry(read, entry),
        bumpRevision(read, 'models'),
      ]);
    },
  };
}

const toRow = ({ hash, keyId, createdAt, expiresAt }: Session): SessionsTable => ({
  hash,
  key_id: keyId,
  created_at_ms: createdAt,
  expires_at_ms: expiresAt,
});

const toSession = (row: SessionsTable): Session => ({
  hash: row.hash,
  keyId: row.key_id,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
});

function sqlSessions({ read, write, writeIf }: SqlDatabase): SessionRepository {
  return {
    async create(session, { maxPerKey }) {
      const newest = read
        .selectFrom('sessions')
        .select('hash')
        .where('key_id', '=', session.keyId)
        .orderBy('created_at_ms', 'desc')
        .orderBy('hash')
        .limit(maxPerKey);
      await write([
        read.insertInto('sessions').values(toRow(session)),
        read.deleteFrom('sessions').where('key_id', '=', session.keyId).where('hash', 'not in', newest),
      ]);
    },
    async find(hash) {
      const row = await read.selectFrom('sessions').selectAll().where('hash', '=', hash).executeTakeFirst();
      return row && toSession(row);
    },
    async renew(hash, expiresAt) {
      await write([read.updateTable('sessions').set({ expires_at_ms: expiresAt }).where('hash', '=', hash)]);
    },
    async remove(hash) {
      await writeIf([read.deleteFrom('sessions').where('hash', '=', hash)], { urgent: true });
    },
    async removeExpired(now) {
      await write([read.deleteFrom('sessions').where('expires_at_ms', '<=', now)]);
    },
  };
}
