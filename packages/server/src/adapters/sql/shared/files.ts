import type { FilePurpose, StoredFile } from '@baobab/core/domain/file.ts';
import type { FileRepository } from '@baobab/core/ports/files.ts';
import type { ExpressionBuilder } from 'kysely';
import type { SqlDatabase } from './database.ts';
import { fitsAlone, storedAmounts } from './stored-amounts.ts';
import type { FilesTable, Tables } from './tables.ts';

export const toFileRow = (file: StoredFile): FilesTable => ({
  id: file.id,
  account_id: file.accountId,
  purpose: file.purpose,
  filename: file.filename,
  bytes: file.bytes,
  sha256: file.sha256,
  blob_key: file.blobKey,
  created_at_ms: file.createdAt,
  expires_at_ms: file.expiresAt,
  discarded_at_ms: null,
});

const toFile = (row: FilesTable): StoredFile => ({
  id: row.id,
  accountId: row.account_id,
  purpose: row.purpose as FilePurpose,
  filename: row.filename,
  bytes: row.bytes,
  sha256: row.sha256,
  blobKey: row.blob_key,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
});

const unattached = ({ not, exists, selectFrom }: ExpressionBuilder<Tables, 'files'>) =>
  not(exists(selectFrom('file_attachments').select('file_id').whereRef('file_attachments.file_id', '=', 'files.id')));

export function sqlFiles({ read, write, writeIf, byIndex, pagedBy }: SqlDatabase): FileRepository {
  const amounts = storedAmounts(read, 'files');
  const visible = (accountId: string) =>
    read.selectFrom('files').where('account_id', '=', accountId).where('discarded_at_ms', 'is', null);

  const discarding = (id: string, now: number) =>
    read.updateTable('files').set({ discarded_at_ms: now }).where('id', '=', id).where('discarded_at_ms', 'is', null);

  return {
    async create(file, quota) {
      const amount = { items: 1, bytes: file.bytes };
      if (!fitsAlone(amount, quota)) return false;
      const written = await writeIf(
        [amounts.add(file.accountId, amount, quota), read.insertInto('files').values(toFileRow(file))],
        { byRowLocks: true },
      );
      return written !== undefined;
    },

    stored: amounts.get,

    async get(accountId, id) {
      const row = await visible(accountId).selectAll().where('id', '=', id).executeTakeFirst();
      return row && toFile(row);
    },

    async list(accountId, { purpose, except, limit, after, order }) {
      const rows = await read
        .selectFrom(byIndex('files', purpose === undefined ? 'files_by_account' : 'files_by_purpose'))
        .where(pagedBy('account_id', accountId))
        .where('discarded_at_ms', 'is', null)
        .selectAll()
        .$if(purpose !== undefined, (query) => query.where('purpose', '=', purpose ?? ''))
        .$if(except !== undefined, (query) => query.where('purpose', '<>', except ?? ''))
        .$if(after !== undefined, (query) => query.where('id', order === 'asc' ? '>' : '<', after ?? ''))
        .orderBy('account_id', order)
        .orderBy('id', order)
        .limit(limit)
        .execute();
      return rows.map(toFile);
    },

    async present(accountId, ids) {
      if (ids.length === 0) return new Set();
      const rows = await visible(accountId).select('id').where('id', 'in', ids).execute();
      return new Set(rows.map((row) => row.id));
    },

    async discard(accountId, id, now) {
      const written = await writeIf(
        [
          discarding(id, now).where('account_id', '=', accountId),
          amounts.subtract(accountId, (of) => of.selectFrom('files').select('bytes').where('id', '=', id).$asScalar()),
        ],
        { byRowLocks: true },
      );
      return written !== undefined;
    },

    async discardExpired(now, limit) {
      const expired = await read
        .selectFrom(byIndex('files', 'files_by_expiry'))
        .select(['id', 'account_id', 'bytes'])
        .where('discarded_at_ms', 'is', null)
        .where('expires_at_ms', '<=', now)
        .where(unattached)
        .limit(limit)
        .execute();
      // One transaction for each file: another process or a new job may have been first.
      const written = await Promise.all(
        expired.map(({ id, account_id: accountId, bytes }) =>
          writeIf([discarding(id, now).where(unattached), amounts.subtract(accountId, (of) => of.val(bytes))]),
        ),
      );
      return written.filter((each) => each !== undefined).length;
    },

    async listDiscarded(limit) {
      const rows = await read
        .selectFrom(byIndex('files', 'files_discarded'))
        .select(['id', 'blob_key'])
        .where('discarded_at_ms', 'is not', null)
        .where(unattached)
        .limit(limit)
        .execute();
      return rows.map((row) => ({ id: row.id, blobKey: row.blob_key }));
    },

    async forget(ids) {
      if (ids.length === 0) return;
      await write([read.deleteFrom('files').where('id', 'in', ids).where('discarded_at_ms', 'is not', null)]);
    },

    async knownBlobs(blobKeys) {
      if (blobKeys.length === 0) return new Set();
      const rows = await read.selectFrom('files').select('blob_key').where('blob_key', 'in', blobKeys).execute();
      return new Set(rows.map((row) => row.blob_key));
    },

    async attach(fileId, { id, ownerId, leaseUntil }) {
      const [{ changes }] = await write([
        read
          .insertInto('file_attachments')
          .columns(['file_id', 'job_id', 'job_kind', 'owner_id', 'lease_until_ms'])
          .expression((of) =>
            of
              .selectFrom('files')
              .select([
                'id',
                of.val(id).as('job_id'),
                of.val('request').as('job_kind'),
                of.val(ownerId).as('owner_id'),
                of.val(leaseUntil).as('lease_until_ms'),
              ])
              .where('id', '=', fileId)
              .where('discarded_at_ms', 'is', null),
          ),
      ]);
      return changes > 0;
    },

    async attached(jobId) {
      const row = await read
        .selectFrom('files')
        .innerJoin('file_attachments', 'file_attachments.file_id', 'files.id')
        .selectAll('files')
        .where('job_id', '=', jobId)
        .executeTakeFirst();
      return row && toFile(row);
    },

    async detach(jobId) {
      await write([read.deleteFrom('file_attachments').where('job_id', '=', jobId)]);
    },

    async renewAttachments(ownerId, leaseUntil) {
      await write([
        read.updateTable('file_attachments').set({ lease_until_ms: leaseUntil }).where('owner_id', '=', ownerId),
      ]);
    },

    async detachExpired(now) {
      await write([read.deleteFrom('file_attachments').where('lease_until_ms', '<=', now)]);
    },

    async detachOthers(ownerId) {
      await write([read.deleteFrom('file_attachments').where('owner_id', '<>', ownerId)]);
    },
  };
}
