import type {
  AuditAction,
  AuditEntry,
  AuditedChange,
  AuditTarget,
  ChangeOrigin,
} from '@baobab/core/domain/audit/entry.ts';
import { type AuditedFields, fieldChanges, initialFields, shortText } from '@baobab/core/domain/audit/field-changes.ts';
import type { Operation } from '@baobab/core/domain/operations.ts';
import { ACCOUNT_SETTINGS, type Account, type ApiKey, KEY_RIGHTS } from '@baobab/core/domain/principal.ts';
import { createOrderedId } from '@baobab/core/runtime/ids.ts';

const shortOrNull = (text: string | null): string | null => (text === null ? null : shortText(text));

export function auditEntry({ via, actor, ...where }: ChangeOrigin, change: AuditedChange, now: number): AuditEntry {
  const { action, target, changes } = change;
  return {
    id: createOrderedId('audit', now),
    time: now,
    ...where,
    via,
    actor: { ...actor, name: shortOrNull(actor.name), host: shortOrNull(actor.host) },
    action,
    target: { ...target, id: shortText(target.id), name: shortText(target.name) },
    changes,
  };
}

type Owner = Pick<Account, 'id' | 'name'>;

const keyTarget = ({ id, name }: ApiKey, owner: Owner): AuditTarget => ({
  kind: 'key',
  id,
  name,
  accountId: owner.id,
  accountName: owner.name,
});

const accountTarget = ({ id, name }: Owner): AuditTarget => ({
  kind: 'account',
  id,
  name,
  accountId: id,
  accountName: name,
});

/** All that can be changed of a key. Not its secret, and not its hash. */
const keyFields = (key: ApiKey): AuditedFields => ({
  name: key.name,
  ...valuesOf(key, KEY_RIGHTS),
  revokedAt: key.revokedAt,
});

const accountFields = (account: Account): AuditedFields => ({
  ...valuesOf(account, ACCOUNT_SETTINGS),
  aliases: account.aliases.map(({ name, model }) => `${name}=${model}`),
  suspendedAt: account.suspendedAt,
  deletedAt: account.deletedAt,
  erasedAt: account.erasedAt,
});

const valuesOf = (from: object, fields: object): AuditedFields =>
  Object.fromEntries(Object.keys(fields).map((name) => [name, from[name as keyof typeof from]]));

/** What an operator is about to do for an account. */
export interface AccountUse {
  account: Owner;
  operation: Operation | undefined;
}

export const accountUsed = (by: ChangeOrigin, { account, operation }: AccountUse, now: number): AuditEntry =>
  auditEntry(
    by,
    { action: 'account.used', target: accountTarget(account), changes: initialFields({ operation }) },
    now,
  );

/** Entries about keys and accounts, for their repositories. */
export interface ChangeEntries {
  /** `rotatedFrom`: the old key of a rotation. */
  keyCreated(key: ApiKey, owner: Owner, rotatedFrom?: string): AuditEntry;
  /** `replacedBy`: the new key of a rotation. */
  keyChanged(
    action: AuditAction,
    owner: Owner,
    replacedBy?: string,
  ): (before: ApiKey, after: ApiKey) => AuditEntry | undefined;
  accountCreated(account: Account): AuditEntry;
  accountChanged(action: AuditAction): (before: Account, after: Account) => AuditEntry | undefined;
}

export function changeEntries(by: ChangeOrigin, now: number): ChangeEntries {
  const entry = (change: AuditedChange) => (change.changes.length === 0 ? undefined : auditEntry(by, change, now));
  return {
    keyCreated(key, owner, rotatedFrom) {
      const priority = key.priority === 'interactive' ? undefined : key.priority;
      const changes = initialFields({ ...keyFields(key), name: undefined, priority, rotatedFrom });
      return auditEntry(by, { action: 'key.created', target: keyTarget(key, owner), changes }, now);
    },
    keyChanged: (action, owner, replacedBy) => (before, after) =>
      entry({
        action,
        target: keyTarget(before, owner),
        changes: fieldChanges(keyFields(before), { ...keyFields(after), replacedBy }),
      }),
    accountCreated(account) {
      const weight = account.weight === 1 ? undefined : account.weight;
      const changes = initialFields({ ...accountFields(account), weight });
      return auditEntry(by, { action: 'account.created', target: accountTarget(account), changes }, now);
    },
    accountChanged: (action) => (before, after) =>
      entry({
        action,
        target: accountTarget(before),
        changes: fieldChanges(accountFields(before), accountFields(after)),
      }),
  };
}
