import { expressionBuilder } from 'kysely';
import { type ApiKey, type Changes, definedFields, type KeyRights } from '../../../domain/principal.ts';
import type { Scope } from '../../../domain/scopes.ts';
import type { KeyRepository } from '../../../ports/repositories.ts';
import { DuplicateError } from '../../../ports/store-errors.ts';
import { laterThan, toAccount } from './accounts.ts';
import { insertAuditEntry } from './audit/audit-log.ts';
import { changeAudited, unchanged, writeFromStored } from './audit/audited-change.ts';
import type { SqlDatabase } from './database.ts';
import { announceKey } from './revisions.ts';
import type { ApiKeysTable, Tables } from './tables.ts';

const { exists, not, val } = expressionBuilder<Tables>();

const toRow = (key: ApiKey, hash: string): ApiKeysTable => ({
  id: key.id,
  original_id: key.originalId,
  account_id: key.accountId,
  name: key.name,
  prefix: key.prefix,
  hash,
  scopes: JSON.stringify(key.scopes),
  allowed_models: JSON.stringify(key.allowedModels),
  allowed_regions: JSON.stringify(key.allowedRegions),
  allowed_addresses: JSON.stringify(key.allowedAddresses),
  rpm: key.rpm,
  tpm: key.tpm,
  concurrency: key.concurrency,
  monthly_budget_nano_usd: key.monthlyBudgetNanoUsd,
  created_at_ms: key.createdAt,
  expires_at_ms: key.expiresAt,
  revoked_at_ms: key.revokedAt,
  last_used_at_ms: key.lastUsedAt,
});

const toKey = (row: ApiKeysTable): ApiKey => ({
  id: row.id,
  originalId: row.original_id,
  accountId: row.account_id,
  name: row.name,
  prefix: row.prefix,
  scopes: JSON.parse(row.scopes) as Scope[],
  allowedModels: JSON.parse(row.allowed_models) as string[],
  allowedRegions: JSON.parse(row.allowed_regions) as string[],
  allowedAddresses: JSON.parse(row.allowed_addresses) as string[],
  rpm: row.rpm,
  tpm: row.tpm,
  concurrency: row.concurrency,
  monthlyBudgetNanoUsd: row.monthly_budget_nano_usd,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
  revokedAt: row.revoked_at_ms,
  lastUsedAt: row.last_used_at_ms,
});

function changedColumns(changed: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>) {
  const { scopes, allowedModels, allowedRegions, allowedAddresses, ...rights } = changed;
  return definedFields({
    name: rights.name,
    scopes: scopes && JSON.stringify(scopes),
    allowed_models: allowedModels && JSON.stringify(allowedModels),
    allowed_regions: allowedRegions && JSON.stringify(allowedRegions),
    allowed_addresses: allowedAddresses && JSON.stringify(allowedAddresses),
    rpm: rights.rpm,
    tpm: rights.tpm,
    concurrency: rights.concurrency,
    monthly_budget_nano_usd: rights.monthlyBudgetNanoUsd,
    expires_at_ms: rights.expiresAt,
    revoked_at_ms: rights.revokedAt,
  });
}

export function sqlKeys({ read, write, writeIf }: SqlDatabase): KeyRepository {
  const rowOf = (id: string) => read.selectFrom('api_keys').selectAll().where('id', '=', id).executeTakeFirst();
  /** Changes the row only if it is as it was read. Uses do not count. */
  const changing = ({ last_used_at_ms: _, ...row }: ApiKeysTable, changes: ReturnType<typeof changedColumns>) =>
    read.updateTable('api_keys').set(changes).where(unchanged(row)).returningAll();

  return {
    async create(key, hash, entry) {
      await write([
        read.insertInto('api_keys').values(toRow(key, hash)),
        insertAuditEntry(read, entry),
        ...announceKey(read, key.id),
      ]);
    },
    async createFirst(key, hash, entry) {
      const row = toRow(key, hash);
      const none = not(exists(read.selectFrom('api_keys').select('id')));
      try {
        const written = await writeIf([
          read
            .insertInto('api_keys')
            .columns(Object.keys(row) as (keyof ApiKeysTable)[])
            .expression(read.selectNoFrom(Object.entries(row).map(([name, value]) => val(value).as(name))).where(none)),
          insertAuditEntry(read, entry),
          ...announceKey(read, key.id),
        ]);
        return written !== undefined;
      } catch (error) {
        // Another server has stored the same secret meanwhile.
        if (error instanceof DuplicateError) return false;
        throw error;
      }
    },
    async get(id) {
      const row = await rowOf(id);
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
    async list({ accountId, after, limit }) {
      const rows = await read
        .selectFrom('api_keys')
        .selectAll()
        .$if(accountId !== undefined, (query) => query.where('account_id', '=', accountId ?? ''))
        .where(laterThan(after))
        .orderBy('created_at_ms')
        .orderBy('id')
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
    async update(id, changed, entryOf) {
      const changes = changedColumns(changed);
      return changeAudited({
        get: () => rowOf(id),
        toStored: toKey,
        changed: Object.keys(changes).length === 0 ? undefined : changed,
        entryOf,
        async write(row, entry) {
          const written = await writeIf(
            [changing(row, changes), insertAuditEntry(read, entry), ...announceKey(read, id)],
            { urgent: true },
          );
          return written?.[0].rows[0];
        },
      });
    },
    replace: (id, planFor) =>
      writeFromStored(
        () => rowOf(id),
        async (row) => {
          const { changes, next, entries } = planFor(toKey(row));
          const written = await writeIf([
            changing(row, changedColumns(changes)),
            read.insertInto('api_keys').values(toRow(next.key, next.hash)),
            ...entries.map((entry) => insertAuditEntry(read, entry)),
            ...announceKey(read, next.key.id),
            ...announceKey(read, id),
          ]);
          const changed = written?.[0].rows[0];
          return changed && toKey(changed);
        },
      ),
    async touch(uses) {
      if (uses.length === 0) return;
      await write(
        uses.map(({ id, lastUsedAt }) =>
          read
            .updateTable('api_keys')
            .set({ last_used_at_ms: lastUsedAt })
            .where('id', '=', id)
            .where((where) =>
              where.or([where('last_used_at_ms', 'is', null), where('last_used_at_ms', '<', lastUsedAt)]),
            ),
        ),
      );
    },
  };
}
