import type { Quota, StoredAmount } from '@baobab/core/ports/quotas.ts';
import { type Expression, type ExpressionBuilder, type Kysely, sql } from 'kysely';
import type { Tables } from './tables.ts';

/** What is counted for each account. */
export type StoredKind = 'files' | 'idempotency' | 'batches' | 'responses' | 'request_texts';

const MAX_COUNT = Number.MAX_SAFE_INTEGER;

/** Whether so much may be stored by an account that stores nothing yet. */
export const fitsAlone = ({ items, bytes }: StoredAmount, quota: Quota): boolean =>
  items <= (quota.items || MAX_COUNT) && bytes <= (quota.bytes || MAX_COUNT);

/**
 * Statements that keep the amounts of each account. They go into the transaction that stores or removes the things themselves, so
 * that the amounts are exact however many processes write at once: the row of the account is locked until the commit.
 */
export const storedAmounts = (db: Kysely<Tables>, kind: StoredKind) => {
  const row = (accountId: string) => ({ account_id: accountId, kind });

  return {
    /** Changes no row when the account would then have more than its quota. Check `fitsAlone` before: a first row is not checked. */
    add: (accountId: string, amount: StoredAmount, quota: Quota = { items: 0, bytes: 0 }) =>
      db
        .insertInto('stored_amounts')
        .values({ ...row(accountId), ...amount })
        .onConflict((conflict) =>
          conflict
            .columns(['account_id', 'kind'])
            .doUpdateSet({
              items: sql<number>`stored_amounts.items + ${amount.items}`,
              bytes: sql<number>`stored_amounts.bytes + ${amount.bytes}`,
            })
            .where('stored_amounts.items', '<=', (quota.items || MAX_COUNT) - amount.items)
            .where('stored_amounts.bytes', '<=', (quota.bytes || MAX_COUNT) - amount.bytes),
        ),

    /** One item, and its bytes. */
    subtract: (
      accountId: string,
      bytes: (of: ExpressionBuilder<Tables, 'stored_amounts'>) => Expression<number | null>,
    ) =>
      db
        .updateTable('stored_amounts')
        .set((of) => ({ items: of('items', '-', 1), bytes: of('bytes', '-', bytes(of)) }))
        .where('account_id', '=', accountId)
        .where('kind', '=', kind),

    async get(accountId: string): Promise<StoredAmount> {
      const found = await db
        .selectFrom('stored_amounts')
        .select(['items', 'bytes'])
        .where('account_id', '=', accountId)
        .where('kind', '=', kind)
        .executeTakeFirst();
      return found ?? { items: 0, bytes: 0 };
    },
  };
};
