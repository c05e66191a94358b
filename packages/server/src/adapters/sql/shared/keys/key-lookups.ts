import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import { inPage, isSearch, pageOrder, toAccount } from '../accounts.ts';
import type { SqlDatabase } from '../database.ts';
import { keyRow, toKey } from './key-rows.ts';

export type KeyLookups = Pick<KeyRepository, 'get' | 'findByHash' | 'list' | 'count'>;

export function sqlKeyLookups({ read, report, byIndex }: SqlDatabase): KeyLookups {
  return {
    async get(id) {
      const row = await keyRow(read, id);
      return row && toKey(row);
    },

    async findByHash(hash) {
      const row = await read
        .selectFrom('api_keys')
        .innerJoin('accounts', 'accounts.id', 'api_keys.account_id')
        .where('hash', '=', hash)
        .selectAll('api_keys')
        .select([
          'accounts.name as account_name',
          'accounts.created_at_ms as account_created_at_ms',
          'accounts.weight as account_weight',
          'accounts.rpm as account_rpm',
          'accounts.tpm as account_tpm',
          'accounts.concurrency as account_concurrency',
          'accounts.monthly_budget_nano_usd as account_budget',
          'accounts.suspended_at_ms as account_suspended_at_ms',
          'accounts.zero_retention as account_zero_retention',
          'accounts.store_prompts as account_store_prompts',
          'accounts.file_retention_days as account_file_retention_days',
          'accounts.aliases as account_aliases',
          'accounts.deleted_at_ms as account_deleted_at_ms',
          'accounts.erased_at_ms as account_erased_at_ms',
        ])
        .executeTakeFirst();
      if (!row) return undefined;
      const account = toAccount({
        id: row.account_id,
        name: row.account_name,
        created_at_ms: row.account_created_at_ms,
        weight: row.account_weight,
        rpm: row.account_rpm,
        tpm: row.account_tpm,
        concurrency: row.account_concurrency,
        monthly_budget_nano_usd: row.account_budget,
        suspended_at_ms: row.account_suspended_at_ms,
        zero_retention: row.account_zero_retention,
        store_prompts: row.account_store_prompts,
        file_retention_days: row.account_file_retention_days,
        aliases: row.account_aliases,
        deleted_at_ms: row.account_deleted_at_ms,
        erased_at_ms: row.account_erased_at_ms,
      });
      return { key: toKey(row), account, hash: row.hash };
    },

    async list({ accountId, ...page }, caller) {
      const { limit } = page;
      const rows = await (isSearch(page) ? report(caller) : read)
        .selectFrom(byIndex('api_keys', accountId === undefined ? 'api_keys_by_creation' : 'api_keys_by_account'))
        .selectAll()
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .where(inPage(page, ['name', 'prefix']))
        .orderBy('created_at_ms', pageOrder(page))
        .orderBy('id', pageOrder(page))
        .$if(limit !== undefined, (query) => query.limit(limit ?? 0))
        .execute();
      return rows.map(toKey);
    },

    async count(accountId, { now, madeSince }) {
      const { count } = await read
        .selectFrom('api_keys')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('account_id', '=', accountId)
        .where(({ and, eb, or }) =>
          or([
            eb('created_at_ms', '>=', madeSince),
            and([
              eb('revoked_at_ms', 'is', null),
              or([eb('expires_at_ms', 'is', null), eb('expires_at_ms', '>', now)]),
            ]),
          ]),
        )
        .executeTakeFirstOrThrow();
      return Number(count);
    },
  };
}
