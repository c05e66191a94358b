import type { RequestText, RequestTexts } from '@baobab/core/ports/request-texts.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import type { SqlDatabase } from './database.ts';
import { fitsAlone, storedAmounts } from './stored-amounts.ts';
import type { RequestTextsTable } from './tables.ts';

/** Rows removed in one transaction, so that other writes do not wait long. */
const REMOVE_ROWS = 200;

const bytesOf = ({ prompt, answer }: RequestText): number =>
  Buffer.byteLength(prompt ?? '') + Buffer.byteLength(answer ?? '');

const toText = (row: RequestTextsTable): RequestText => ({
  requestId: row.request_id,
  accountId: row.account_id,
  time: row.time_ms,
  prompt: row.prompt,
  answer: row.answer,
  truncated: row.truncated === 1,
});

export function sqlRequestTexts({ read, report, write, writeIf }: SqlDatabase): RequestTexts {
  const amounts = storedAmounts(read, 'request_texts');
  const some = () => read.selectFrom('request_texts').select(['request_id', 'account_id']).limit(REMOVE_ROWS);

  async function remove(found: { request_id: string; account_id: string }[]): Promise<number> {
    const statements = found.flatMap(({ request_id: id, account_id: accountId }) => [
      amounts.subtract(accountId, (of) =>
        of.selectFrom('request_texts').select('request_texts.bytes').where('request_id', '=', id).$asScalar(),
      ),
      read.deleteFrom('request_texts').where('request_id', '=', id),
    ]);
    if (statements.length > 0) await write(statements);
    return found.length;
  }

  return {
    async add(text, quota) {
      const bytes = bytesOf(text);
      const amount = { items: 1, bytes };
      if (!fitsAlone(amount, quota)) return false;
      const { requestId, accountId, time, prompt, answer, truncated } = text;
      const row = { request_id: requestId, account_id: accountId, time_ms: time, prompt, answer, bytes };
      try {
        const written = await writeIf(
          [
            amounts.add(accountId, amount, quota),
            read.insertInto('request_texts').values({ ...row, truncated: truncated ? 1 : 0 }),
          ],
          { byRowLocks: true },
        );
        return written !== undefined;
      } catch (error) {
        if (error instanceof DuplicateError) return false;
        throw error;
      }
    },
    async get(requestId, accountId) {
      const row = await read
        .selectFrom('request_texts')
        .selectAll()
        .where('request_id', '=', requestId)
        .where('account_id', '=', accountId)
        .executeTakeFirst();
      return row && toText(row);
    },
    removeOlder: async (than) => remove(await some().where('time_ms', '<', than).orderBy('time_ms').execute()),
    removeOfAccount: async (accountId) => remove(await some().where('account_id', '=', accountId).execute()),
    async accountsNotKeeping() {
      const rows = await report()
        .selectFrom('request_texts')
        .select('account_id')
        .distinct()
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom('accounts')
                .select('accounts.id')
                .whereRef('accounts.id', '=', 'request_texts.account_id')
                .where('store_prompts', '=', 1),
            ),
          ),
        )
        .execute();
      return rows.map(({ account_id }) => account_id);
    },
  };
}
