import { type ApiKey, type Changes, definedFields, type KeyRights } from '@baobab/core/domain/principal.ts';
import type { Scope } from '@baobab/core/domain/scopes.ts';
import type { Kysely } from 'kysely';
import type { ApiKeysTable, Tables } from '../tables.ts';

export const toRow = (key: ApiKey, hash: string): ApiKeysTable => ({
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
  priority: key.priority,
  created_at_ms: key.createdAt,
  expires_at_ms: key.expiresAt,
  revoked_at_ms: key.revokedAt,
  last_used_at_ms: key.lastUsedAt,
});

export const toKey = (row: ApiKeysTable): ApiKey => ({
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
  priority: row.priority,
  createdAt: row.created_at_ms,
  expiresAt: row.expires_at_ms,
  revokedAt: row.revoked_at_ms,
  lastUsedAt: row.last_used_at_ms,
});

export function changedColumns(changed: Changes<KeyRights & Pick<ApiKey, 'revokedAt'>>) {
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
    priority: rights.priority,
    expires_at_ms: rights.expiresAt,
    revoked_at_ms: rights.revokedAt,
  });
}

export const keyRow = (read: Kysely<Tables>, id: string) =>
  read.selectFrom('api_keys').selectAll().where('id', '=', id).executeTakeFirst();
