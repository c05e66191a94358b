import { randomBytes } from 'node:crypto';
import type { AuditEntry, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { hasControlCharacter } from '@baobab/core/domain/control-characters.ts';
import type { Account, ApiKey, Changes, KeyRights } from '@baobab/core/domain/principal.ts';
import { DEFAULT_SCOPES } from '@baobab/core/domain/scopes.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { isAddressRange } from '@baobab/core/runtime/addresses.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { changeEntries } from '../audit/entries.ts';
import { checkNotDeleted } from './accounts.ts';
import { createSecret, displayPrefix, hashSecret } from './key-secret.ts';

export type KeyOptions = Changes<KeyRights> & Pick<KeyRights, 'name'>;

export interface IssuedKey {
  key: ApiKey;
  /** Shown once. Only its hash is stored. */
  secret: string;
}

/** A key that is not stored yet. */
export interface KeyDraft extends IssuedKey {
  hash: string;
  entry: AuditEntry;
}

export interface DraftOptions extends KeyOptions {
  originalId?: string;
  rotatedFrom?: string;
  secret?: string | undefined;
}

export function draftKey(
  account: Account,
  options: DraftOptions,
  { by, now }: { by: ChangeOrigin; now: number },
): KeyDraft {
  checkNotDeleted(account);
  const secret = options.secret ?? createSecret(randomBytes);
  const id = createId('key', now);
  const key: ApiKey = {
    id,
    originalId: options.originalId ?? id,
    accountId: account.id,
    name: options.name,
    prefix: displayPrefix(secret),
    scopes: options.scopes ?? DEFAULT_SCOPES,
    allowedModels: options.allowedModels ?? [],
    allowedRegions: options.allowedRegions ?? [],
    allowedAddresses: options.allowedAddresses ?? [],
    rpm: options.rpm ?? null,
    tpm: options.tpm ?? null,
    concurrency: options.concurrency ?? null,
    monthlyBudgetNanoUsd: options.monthlyBudgetNanoUsd ?? null,
    createdAt: now,
    expiresAt: options.expiresAt ?? null,
    revokedAt: null,
    lastUsedAt: null,
  };
  const entry = changeEntries(by, now).keyCreated(key, account, options.rotatedFrom);
  return { key, secret, hash: hashSecret(secret), entry };
}

export function checkRights(rights: Changes<KeyRights>, now: number): void {
  const { name, allowedModels, allowedRegions, allowedAddresses, expiresAt } = rights;
  if (name !== undefined) checkText(name, ['name']);
  for (const [index, pattern] of (allowedModels ?? []).entries()) checkText(pattern, ['allowedModels', index]);
  for (const [index, region] of (allowedRegions ?? []).entries()) checkText(region, ['allowedRegions', index]);
  for (const [index, range] of (allowedAddresses ?? []).entries()) checkRange(range, ['allowedAddresses', index]);
  if (typeof expiresAt === 'number' && expiresAt <= now) {
    throw errors.invalidParameter(['expiresAt'], fieldText`${['expiresAt']} must be in the future.`);
  }
}

function checkText(text: string, field: FieldPath): void {
  if (!hasControlCharacter(text)) return;
  throw errors.invalidParameter(field, fieldText`${field} must not contain control characters.`);
}

function checkRange(text: string, field: FieldPath): void {
  if (isAddressRange(text)) return;
  throw errors.invalidParameter(
    field,
    fieldText`${field} must be an IP address or a range such as 10.0.0.0/8 or 2001:db8::/32.`,
  );
}
