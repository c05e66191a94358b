import { ACCOUNT_FIELDS, type Account } from '@baobab/core/domain/principal.ts';
import type { AccountRepository, PageFilter } from '@baobab/core/ports/repositories.ts';
import { type RawBuilder, sql } from 'kysely';
import { insertAuditEntry } from './audit/audit-log.ts';
import { changeAudited, unchanged } from './audit/audited-change.ts';
import type { SqlDatabase } from './database.ts';
import { columnsOf, fieldsOf } from './fields.ts';
import { announceAccount } from './revisions.ts';
import type { AccountsTable } from './tables.ts';

const toAccount = (row: AccountsTable): Account => fieldsOf<Account>(ACCOUNT_FIELDS, row);

/** Nothing of an index narrows these down, so that they read up to the whole table. */
export const isSearch = ({ search, hasBudget }: PageFilter): boolean => search !== undefined || hasBudget === true;

/** What a page of accounts or keys has, but for its length. */
export function inPage(
  { after, newestFirst = false, search, hasBudget = false }: PageFilter,
  searched: readonly ('name' | 'prefix')[],
): RawBuilder<boolean> {
  const parts: RawBuilder<boolean>[] = [sql`1 = 1`];
  const beyond = newestFirst ? sql.raw('<') : sql.raw('>');
  if (after !== undefined) parts.push(sql`(created_at_ms, id) ${beyond} (${after.createdAt}, ${after.id})`);
  if (hasBudget) parts.push(sql`monthly_budget_nano_usd is not null`);
  if (search !== undefined) {
    const part = `%${search.replaceAll(/[\\%_]/g, '\\$&')}%`;
    const isIn = searched.map(
      (column) =>
        sql<boolean>`${sql.ref(column)} like ${part} escape '\\' or lower(${sql.ref(column)}) like ${part.toLowerCase()} escape '\\'`,
    );
    parts.push(sql`(id = ${search} or ${sql.join(isIn, sql` or `)})`);
  }
  return sql.join(parts, sql` and `);
}

export const pageOrder = ({ newestFirst = false }: PageFilter): 'asc' | 'desc' => (newestFirst ? 'desc' : 'asc');

/** Both databases bound the parameters of a statement. */
const READ_AT_ONCE = 1_000;

export function sqlAccounts({ read, report, write, writeIf, byIndex }: SqlDatabase): AccountRepository {
  const accounts = read.selectFrom('accounts').selectAll();
  return {
    async create(account, entry) {
      await write([
        read.insertInto('accounts').values(columnsOf<AccountsTable>(ACCOUNT_FIELDS, account) as AccountsTable),
        insertAuditEntry(read, entry),
        ...announceAccount(read, account.id),
      ]);
    },
    async get(id) {
      const row = await accounts.where('id', '=', id).executeTakeFirst();
      return row && toAccount(row);
    },
    async getMany(ids) {
      const found: Account[] = [];
      for (let at = 0; at < ids.length; at += READ_AT_ONCE) {
        const rows = await accounts.where('id', 'in', ids.slice(at, at + READ_AT_ONCE)).execute();
        found.push(...rows.map(toAccount));
      }
      return found;
    },
    async findByName(name) {
      const row = await accounts.where('name', '=', name).executeTakeFirst();
      return row && toAccount(row);
    },
    async list(page = {}, caller) {
      const { limit } = page;
      const rows = await (isSearch(page) ? report(caller) : read)
        .selectFrom(byIndex('accounts', 'accounts_by_creation'))
        .selectAll()
        .where(inPage(page, ['name']))
        .orderBy('created_at_ms', pageOrder(page))
        .orderBy('id', pageOrder(page))
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
      const changes = columnsOf<AccountsTable>(ACCOUNT_FIELDS, changed);
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
