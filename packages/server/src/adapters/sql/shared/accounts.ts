import { type Account, definedFields } from '@baobab/core/domain/principal.ts';
import type { AccountRepository, PageFilter } from '@baobab/core/ports/repositories.ts';
import { sql } from 'kysely';
import { insertAuditEntry } from './audit/audit-log.ts';
import { changeAudited, unchanged } from './audit/audited-change.ts';
import type { SqlDatabase } from './database.ts';
import { announceAccount } from './revisions.ts';
import type { AccountsTable } from './tables.ts';

const toRow = (account: Account): AccountsTable => ({
  id: account.id,
  name: account.name,
  created_at_ms: account.createdAt,
  weight: account.weight,
  rpm: account.rpm,
  tpm: account.tpm,
  concurrency: account.concurrency,
  monthly_budget_nano_usd: account.monthlyBudgetNanoUsd,
  suspended_at_ms: account.suspendedAt,
  zero_retention: account.zeroRetention ? 1 : 0,
  store_prompts: account.storePrompts ? 1 : 0,
  file_retention_days: account.fileRetentionDays,
  aliases: JSON.stringify(account.aliases),
  deleted_at_ms: account.deletedAt,
  erased_at_ms: account.erasedAt,
});

export const toAccount = (row: AccountsTable): Account => ({
  id: row.id,
  name: row.name,
  createdAt: row.created_at_ms,
  weight: row.weight,
  rpm: row.rpm,
  tpm: row.tpm,
  concurrency: row.concurrency,
  monthlyBudgetNanoUsd: row.monthly_budget_nano_usd,
  suspendedAt: row.suspended_at_ms,
  deletedAt: row.deleted_at_ms,
  erasedAt: row.erased_at_ms,
  zeroRetention: row.zero_retention === 1,
  storePrompts: row.store_prompts === 1,
  fileRetentionDays: row.file_retention_days,
  aliases: JSON.parse(row.aliases) as Account['aliases'],
});

/** For lists of accounts and keys, which are in the order of their creation. */
export const laterThan = (after: PageFilter['after']) =>
  after === undefined ? sql<boolean>`1 = 1` : sql<boolean>`(created_at_ms, id) > (${after.createdAt}, ${after.id})`;

export function sqlAccounts({ read, write, writeIf, byIndex }: SqlDatabase): AccountRepository {
  const accounts = read.selectFrom('accounts').selectAll();
  return {
    async create(account, entry) {
      await write([
        read.insertInto('accounts').values(toRow(account)),
        insertAuditEntry(read, entry),
        ...announceAccount(read, account.id),
      ]);
    },
    async get(id) {
      const row = await accounts.where('id', '=', id).executeTakeFirst();
      return row && toAccount(row);
    },
    async findByName(name) {
      const row = await accounts.where('name', '=', name).executeTakeFirst();
      return row && toAccount(row);
    },
    async list({ after, limit } = {}) {
      const rows = await read
        .selectFrom(byIndex('accounts', 'accounts_by_creation'))
        .selectAll()
        .where(laterThan(after))
        .orderBy('created_at_ms')
        .orderBy('id')
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toAccount);
    },
    async listUnerased() {
      const rows = await read
        .selectFrom(byIndex('accounts', 'accounts_to_erase'))
        .selectAll()
        .where('deleted_at_ms', 'is not', null)
        .where('erased_at_ms', 'is', null)
        .execute();
      return rows.map(toAccount);
    },
    async update(id, changed, entryOf) {
      const { name, rpm, tpm, concurrency, monthlyBudgetNanoUsd, zeroRetention, fileRetentionDays } = changed;
      const { suspendedAt, deletedAt, erasedAt, aliases, storePrompts, weight } = changed;
      const changes = definedFields({
        name,
        weight,
        rpm,
        tpm,
        concurrency,
        monthly_budget_nano_usd: monthlyBudgetNanoUsd,
        suspended_at_ms: suspendedAt,
        deleted_at_ms: deletedAt,
        erased_at_ms: erasedAt,
        zero_retention: zeroRetention === undefined ? undefined : zeroRetention ? 1 : 0,
        store_prompts: storePrompts === undefined ? undefined : storePrompts ? 1 : 0,
        file_retention_days: fileRetentionDays,
        aliases: aliases && JSON.stringify(aliases),
      });
      return changeAudited({
        get: () => accounts.where('id', '=', id).executeTakeFirst(),
        toStored: toAccount,
        changed: Object.keys(changes).length === 0 ? undefined : changed,
        entryOf,
        async write(stored, entry) {
          const written = await writeIf(
            [
              read.updateTable('accounts').set(changes).where(unchanged(stored)).returningAll(),
              insertAuditEntry(read, entry),
              ...announceAccount(read, id),
            ],
            { urgent: true },
          );
          return written?.[0].rows[0];
        },
      });
    },
  };
}
