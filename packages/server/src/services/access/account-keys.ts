import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { isOperator } from '@baobab/core/domain/operations.ts';
import type { ApiKey, Changes, KeyRights, Principal } from '@baobab/core/domain/principal.ts';
import { DEFAULT_SCOPES } from '@baobab/core/domain/scopes.ts';
import { matchesPattern } from '@baobab/core/domain/slug.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { AuditLog } from '@baobab/core/ports/repositories.ts';
import type { Page, PageRequest } from './accounts.ts';
import type { IssuedKey, KeyOptions, KeysService } from './keys.ts';

/** Who asks, and what the audit log says of it. */
export interface Caller extends Principal {
  by: ChangeOrigin;
}

/** Keys that a member manages: only those of its own account, and never with more rights than its own key. */
export interface AccountKeysService {
  list(caller: Principal, page: PageRequest, reports?: ReportCaller): Promise<Page<ApiKey>>;
  create(caller: Caller, options: KeyOptions): Promise<IssuedKey>;
  /** The three below throw 400 when the account has no such key. */
  update(caller: Caller, id: string, changes: Changes<KeyRights>): Promise<ApiKey>;
  revoke(caller: Caller, id: string): Promise<ApiKey>;
  rotate(caller: Caller, id: string, graceMs: number): Promise<IssuedKey>;
}

/** Those that a key can have no more of than the key that makes it. */
const BOUNDED = ['scopes', 'allowedModels', 'allowedRegions', 'allowedAddresses', 'priority', 'expiresAt'] as const;
type Rights = Pick<KeyRights, (typeof BOUNDED)[number]>;

/** What is not chosen is taken from another key. */
const rightsWith = (chosen: Changes<Rights>, other: Rights): Rights =>
  Object.fromEntries(
    BOUNDED.map((right) => [right, chosen[right] === undefined ? other[right] : chosen[right]]),
  ) as Rights;

const LIMITS = ['rpm', 'tpm', 'concurrency', 'monthlyBudgetNanoUsd'] as const;

/** Empty lists allow everything. */
const within = (list: readonly string[], own: readonly string[], covers: (one: string, mine: string) => boolean) =>
  own.length === 0 || (list.length > 0 && list.every((one) => own.some((mine) => covers(one, mine))));

const isSame = (one: string, other: string): boolean => one === other;

/** The field in which rights exceed those of the caller's key. */
function excess(rights: Rights, { key }: Principal): FieldPath | undefined {
  // An operator can do more than any key.
  if (isOperator(key)) return undefined;
  if (!rights.scopes.every((scope) => key.scopes.includes(scope))) return ['scopes'];
  // A pattern such as a* is covered by the same pattern, and by one that matches it as a text.
  if (!within(rights.allowedModels, key.allowedModels, matchesPattern)) return ['allowedModels'];
  if (!within(rights.allowedRegions, key.allowedRegions, isSame)) return ['allowedRegions'];
  if (!within(rights.allowedAddresses, key.allowedAddresses, isSame)) return ['allowedAddresses'];
  if (key.priority === 'low' && rights.priority !== 'low') return ['priority'];
  const { expiresAt } = key;
  if (expiresAt !== null && (rights.expiresAt === null || rights.expiresAt > expiresAt)) return ['expiresAt'];
  return undefined;
}

function checkWithin(rights: Rights, caller: Principal): void {
  const field = excess(rights, caller);
  if (field === undefined) return;
  throw errors.invalidParameter(field, fieldText`${field} must not go beyond the rights of the key that you use.`);
}

/** Keys share no limits: many keys could use more than this one may. */
function checkUnlimited({ key }: Principal): void {
  if (isOperator(key) || LIMITS.every((limit) => key[limit] === null)) return;
  throw errors.keyHasLimits();
}

/** Operators may make more for an account. */
const MAX_KEYS = 1_000;

/** In a day, by keys of the account: each leaves an entry in the audit log. Creating and revoking is limited by the number of keys. */
const MAX_CHANGES = 1_000;

export interface AccountKeysDependencies {
  keys: KeysService;
  audit: Pick<AuditLog, 'count'>;
  clock: Clock;
}

export function createAccountKeys({ keys, audit, clock }: AccountKeysDependencies): AccountKeysService {
  async function checkNumber({ account, key }: Principal): Promise<void> {
    if (isOperator(key)) return;
    if ((await keys.countKeys(account.id)) >= MAX_KEYS) throw errors.tooManyKeys(MAX_KEYS);
  }

  async function checkChanges({ account, key }: Principal): Promise<void> {
    if (isOperator(key)) return;
    const start = clock.now() - DAY_MS;
    const { id } = account;
    const made = await audit.count({ accountId: id, actorAccountId: id, action: 'key.changed', start });
    if (made >= MAX_CHANGES) throw errors.tooManyKeyChanges(MAX_CHANGES);
  }

  async function find(caller: Principal, id: string): Promise<ApiKey> {
    const found = await keys.findKey(id);
    if (found?.accountId !== caller.account.id) throw errors.invalidParameter(['id'], `There is no key '${id}'.`);
    return found;
  }

  /** A key with more rights than the caller's may only be managed by an operator. */
  async function findManaged(caller: Principal, id: string): Promise<ApiKey> {
    const key = await find(caller, id);
    if (key.id !== caller.key.id && excess(key, caller) !== undefined) throw errors.keyBeyondRights();
    return key;
  }

  const changed = <T>(key: T | undefined, id: string): T => {
    if (key === undefined) throw errors.invalidParameter(['id'], `There is no key '${id}'.`);
    return key;
  };

  return {
    list: ({ account }, page, reports) => keys.pageKeys({ ...page, accountId: account.id }, reports),
    async create(caller, options) {
      checkUnlimited(caller);
      const { key, account } = caller;
      const scopes = DEFAULT_SCOPES.filter((scope) => key.scopes.includes(scope));
      const rights = rightsWith(options, { ...key, scopes });
      checkWithin(rights, caller);
      await checkNumber(caller);
      return keys.createKey(account, { ...options, ...rights }, caller.by);
    },
    async update(caller, id, changes) {
      checkUnlimited(caller);
      const key = await findManaged(caller, id);
      checkWithin(rightsWith(changes, key), caller);
      await checkChanges(caller);
      return changed(await keys.updateKey(id, changes, caller.by), id);
    },
    async revoke(caller, id) {
      await findManaged(caller, id);
      return changed(await keys.revokeKey(id, caller.by), id);
    },
    async rotate(caller, id, graceMs) {
      const key = await findManaged(caller, id);
      // The new key of another one would be a way around the caller's own limits.
      if (key.id !== caller.key.id) checkUnlimited(caller);
      await checkNumber(caller);
      // Otherwise a key could make itself last forever.
      const expiresBy = isOperator(caller.key) ? null : caller.key.expiresAt;
      return changed(await keys.rotateKey(id, { graceMs, expiresBy }, caller.by), id);
    },
  };
}
