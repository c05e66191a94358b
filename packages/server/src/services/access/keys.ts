import { randomBytes } from 'node:crypto';
import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import { hasControlCharacter } from '@baobab/core/domain/control-characters.ts';
import {
  type Account,
  type ApiKey,
  type Changes,
  KEY_RIGHTS,
  type KeyRights,
  withInitial,
} from '@baobab/core/domain/principal.ts';
import { SCOPES } from '@baobab/core/domain/scopes.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { KeyRepository } from '@baobab/core/ports/repositories.ts';
import { isAddressRange } from '@baobab/core/runtime/addresses.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { changeEntries } from '../audit/entries.ts';
import { type AccountsService, checkNotDeleted, type Page, type PageRequest, readPage } from './accounts.ts';
import { createSecret, displayPrefix, hashSecret, isPlausibleSecret } from './key-secret.ts';
import { createModelCheck, type KnownModels } from './known-models.ts';

export type KeyOptions = Changes<KeyRights> & Pick<KeyRights, 'name'>;

export interface IssuedKey {
  key: ApiKey;
  /** Shown once. Only its hash is stored. */
  secret: string;
}

interface DraftOptions extends KeyOptions {
  originalId?: string;
  rotatedFrom?: string;
  secret?: string | undefined;
}

/** A key that is not stored yet. */
function draftKey(account: Account, options: DraftOptions, { by, now }: { by: ChangeOrigin; now: number }) {
  checkNotDeleted(account);
  const secret = options.secret ?? createSecret(randomBytes);
  const id = createId('key', now);
  const key: ApiKey = {
    id,
    originalId: options.originalId ?? id,
    accountId: account.id,
    name: options.name,
    prefix: displayPrefix(secret),
    ...withInitial<Omit<KeyRights, 'name'>>(KEY_RIGHTS, options),
    createdAt: now,
    revokedAt: null,
    lastUsedAt: null,
  };
  const entry = changeEntries(by, now).keyCreated(key, account, options.rotatedFrom);
  return { key, secret, hash: hashSecret(secret), entry };
}

function checkRights(rights: Changes<KeyRights>, now: number): void {
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
  if (!text.isWellFormed()) {
    throw errors.invalidParameter(field, fieldText`${field} must not contain halves of surrogate pairs.`);
  }
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

export interface Rotation {
  graceMs: number;
  /** The new key expires then at the latest. */
  expiresBy?: number | null | undefined;
}

export interface KeysService {
  createKey(account: Account, options: KeyOptions, by: ChangeOrigin): Promise<IssuedKey>;
  /** Undefined fields stay as they are. Null and empty lists remove a limit. */
  updateKey(id: string, changes: Changes<KeyRights>, by: ChangeOrigin): Promise<ApiKey | undefined>;
  listKeys(accountId?: string, search?: string): Promise<ApiKey[]>;
  /** Oldest first. Throws 400 when there is no key `after`. */
  pageKeys(page: PageRequest & { accountId?: string | undefined }, caller?: ReportCaller): Promise<Page<ApiKey>>;
  /** Those that can be used, and those made within a day, so that a loop of creating and revoking keys is bounded. */
  countKeys(accountId: string): Promise<number>;
  findKey(id: string): Promise<ApiKey | undefined>;
  findBySecret(secret: string): Promise<ApiKey | undefined>;
  revokeKey(id: string, by: ChangeOrigin): Promise<ApiKey | undefined>;
  /** Issues a key with the same rights, which shares limits and spending with the old one. The old one stays valid for the grace period, at most 24 hours. */
  rotateKey(
    id: string,
    { graceMs, expiresBy }: Rotation,
    by: ChangeOrigin,
  ): Promise<(IssuedKey & { previous: ApiKey }) | undefined>;
  /** Creates the account `default` and a key with every scope when the store has no keys. Undefined when it has some. */
  bootstrap(givenSecret: string | undefined, by: ChangeOrigin): Promise<IssuedKey | undefined>;
}

const MAX_ROTATION_GRACE_MS = DAY_MS;

export interface KeysDependencies {
  accounts: AccountsService;
  keys: KeyRepository;
  /** Undefined: names of models are not checked. */
  models?: KnownModels | undefined;
  clock: Clock;
}

/** The new key is valid as long as the old one was at its start. */
function rotatedExpiry({ createdAt, expiresAt }: ApiKey, now: number, expiresBy: number | null = null): number | null {
  const same = expiresAt === null ? null : now + expiresAt - createdAt;
  return same === null || expiresBy === null ? (same ?? expiresBy) : Math.min(same, expiresBy);
}

export function createKeys({ accounts, keys, models, clock }: KeysDependencies): KeysService {
  /** A pattern may mean models to come; a name must be that of a model. What the key has already may have been removed since. */
  async function checkModels(
    { allowedModels = [] }: Changes<KeyRights>,
    before: readonly string[] = [],
  ): Promise<void> {
    const names = allowedModels.filter((each) => !each.includes('*') && !before.includes(each));
    if (names.length === 0 || models === undefined) return;
    const check = await createModelCheck(models);
    for (const name of names) check(name, ['allowedModels', allowedModels.indexOf(name)]);
  }

  const hasKeys = async () => (await keys.list({ limit: 1 })).length > 0;

  /** Several servers may start on one empty store: the first one creates it. */
  async function defaultAccount(by: ChangeOrigin): Promise<Account> {
    const find = () => accounts.find('default');
    try {
      return (await find()) ?? (await accounts.create('default', {}, by));
    } catch (error) {
      const created = await find();
      if (created === undefined) throw error;
      return created;
    }
  }

  /** A key with the account that it belongs to. */
  async function findOwned(id: string): Promise<{ key: ApiKey; owner: Account } | undefined> {
    const key = await keys.get(id);
    const owner = key && (await accounts.find(key.accountId));
    return key && owner && { key, owner };
  }

  return {
    async createKey(account, options, by) {
      checkRights(options, clock.now());
      await checkModels(options);
      const { key, secret, hash, entry } = draftKey(account, options, { by, now: clock.now() });
      await keys.create(key, hash, entry);
      return { key, secret };
    },
    async updateKey(id, changes, by) {
      checkRights(changes, clock.now());
      const found = await findOwned(id);
      if (found === undefined) return undefined;
      await checkModels(changes, found.key.allowedModels);
      const entryOf = changeEntries(by, clock.now()).keyChanged('key.changed', found.owner);
      return keys.update(id, changes, (before, after) => {
        if (before.revokedAt !== null) throw errors.invalidParameter(['id'], 'A revoked key cannot be changed.');
        return entryOf(before, after);
      });
    },
    listKeys: (accountId, search) => keys.list({ accountId, search }),
    async pageKeys({ accountId, limit, after: afterId, ...filter }, caller) {
      const after = afterId === undefined ? undefined : await keys.get(afterId);
      if (afterId !== undefined && (after === undefined || (accountId ?? after.accountId) !== after.accountId)) {
        throw errors.invalidParameter(['after'], `There is no key '${afterId}'.`);
      }
      return readPage((most) => keys.list({ ...filter, accountId, after, limit: most }, caller), limit);
    },
    countKeys: (accountId) => keys.count(accountId, { now: clock.now(), madeSince: clock.now() - DAY_MS }),
    findKey: (id) => keys.get(id),
    findBySecret: async (secret) => (await keys.findByHash(hashSecret(secret)))?.key,
    async revokeKey(id, by) {
      const found = await findOwned(id);
      if (found === undefined) return undefined;
      const entryOf = changeEntries(by, clock.now()).keyChanged('key.revoked', found.owner);
      return keys.update(id, { revokedAt: clock.now() }, (before, after) =>
        before.revokedAt === null ? entryOf(before, after) : undefined,
      );
    },
    async rotateKey(id, { graceMs, expiresBy }, by) {
      if (graceMs < 0 || graceMs > MAX_ROTATION_GRACE_MS) {
        throw errors.invalidParameter(['graceMs'], 'The old key can stay valid for at most 24 hours.');
      }
      const found = await findOwned(id);
      if (found === undefined) return undefined;
      const { owner } = found;
      const now = clock.now();
      const until = now + graceMs;
      let issued: IssuedKey | undefined;
      const previous = await keys.replace(id, (before) => {
        if (before.revokedAt !== null) throw errors.invalidParameter(['id'], 'A revoked key cannot be rotated.');
        const expiresAt = rotatedExpiry(before, now, expiresBy);
        const { key, secret, hash, entry } = draftKey(owner, { ...before, expiresAt, rotatedFrom: id }, { by, now });
        issued = { key, secret };
        const changes = graceMs === 0 ? { revokedAt: now } : { expiresAt: Math.min(before.expiresAt ?? until, until) };
        const entryOf = changeEntries(by, now).keyChanged('key.rotated', owner, key.id);
        const entries = [entry, entryOf(before, { ...before, ...changes })].filter((each) => each !== undefined);
        return { changes, next: { key, hash }, entries };
      });
      return issued && previous && { ...issued, previous };
    },
    async bootstrap(givenSecret, by) {
      // Looks for keys, not accounts: the first start may have been killed between creating the two.
      if (await hasKeys()) return undefined;
      if (givenSecret !== undefined && !isPlausibleSecret(givenSecret)) {
        throw errors.invalidParameter(
          ['firstKey'],
          'The configured first key looks like a Baobab key, but its checksum is wrong.',
        );
      }
      const account = await defaultAccount(by);
      const options = { name: 'first key', scopes: SCOPES, secret: givenSecret };
      const { key, secret, hash, entry } = draftKey(account, options, { by, now: clock.now() });
      // Another server that shares the store may have made it meanwhile.
      return (await keys.createFirst(key, hash, entry)) ? { key, secret } : undefined;
    },
  };
}
