import type { AuditAction, ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import type { ModelAlias } from '@baobab/core/domain/model.ts';
import {
  ACCOUNT_SETTINGS,
  type Account,
  type AccountRetention,
  type AccountSettings,
  type AccountState,
  type Changes,
  withInitial,
} from '@baobab/core/domain/principal.ts';
import { parseReference } from '@baobab/core/domain/slug.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { AccountRepository } from '@baobab/core/ports/repositories.ts';
import { DuplicateError } from '@baobab/core/ports/store-errors.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import { changeEntries } from '../audit/entries.ts';
import { withReportAdvice } from '../requests/report-advice.ts';
import { createModelCheck, type KnownModels } from './known-models.ts';

export interface AccountsService {
  create(name: string, settings: Changes<AccountSettings>, by: ChangeOrigin): Promise<Account>;
  /** Undefined fields stay as they are, null removes a limit. */
  update(account: Account, settings: Changes<AccountSettings>, by: ChangeOrigin): Promise<Account>;
  /** `search`: as of a page. */
  list(search?: string): Promise<Account[]>;
  /** Oldest first, unless asked otherwise. Throws 400 when there is no account `after`. */
  page(page: PageRequest, caller?: ReportCaller): Promise<Page<Account>>;
  /** By id or by name. */
  find(idOrName: string): Promise<Account | undefined>;
  /** By the id of each. */
  ofKeys(keys: readonly { accountId: string }[]): Promise<ReadonlyMap<string, Account>>;
  /** Its keys get 403 until it is resumed. Requests that are running go on. */
  suspend(account: Account, by: ChangeOrigin): Promise<Account>;
  resume(account: Account, by: ChangeOrigin): Promise<Account>;
  /**
   * Refuses its keys for good. Its content is erased in the background (see account-erasure.ts). The account stays for the
   * ledger, and its name is free for another one.
   */
  delete(account: Account, by: ChangeOrigin): Promise<Account>;
}

export interface AccountsDependencies {
  accounts: AccountRepository;
  /** Undefined: names of models are not checked. */
  models?: KnownModels | undefined;
  clock: Clock;
}

const NAME = /^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,63}$/u;

/** Deleted accounts are kept for the ledger only. */
export function checkNotDeleted(account: Account): void {
  if (account.deletedAt !== null) throw errors.invalidParameter(['account'], 'This account was deleted.');
}

const ALIAS_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$/;
/** They are read with every request of the account. */
const MAX_ALIASES = 100;

function checkAliases(aliases: readonly ModelAlias[] = []): void {
  if (aliases.length > MAX_ALIASES) {
    throw errors.invalidParameter(['aliases'], fieldText`${['aliases']} must have at most ${MAX_ALIASES} items.`);
  }
  for (const [index, { name, model }] of aliases.entries()) {
    if (!ALIAS_NAME.test(name)) {
      const field = ['aliases', index, 'name'];
      throw errors.invalidParameter(field, fieldText`${field} must be letters, digits, '.', '_', ':', '/' or '-'.`);
    }
    if (aliases.findIndex((each) => each.name === name) < index) {
      throw errors.invalidParameter(['aliases', index, 'name'], `The alias '${name}' is there twice.`);
    }
    if (parseReference(model) === undefined) {
      const field = ['aliases', index, 'model'];
      throw errors.invalidParameter(field, fieldText`${field} must be a slug such as baobab/embed-multilingual.`);
    }
  }
}

const MAX_WEIGHT = 1_000;

function checkWeight(weight = 1): void {
  if (weight >= 1 && weight <= MAX_WEIGHT) return;
  throw errors.invalidParameter(['weight'], fieldText`${['weight']} must be between 1 and ${MAX_WEIGHT}.`);
}

function checkRetention({ zeroRetention, storePrompts }: Changes<AccountRetention>): void {
  if (!zeroRetention || !storePrompts) return;
  throw errors.invalidParameter(
    ['storePrompts'],
    fieldText`${['storePrompts']} and ${['zeroRetention']} exclude each other: turn one of them off.`,
  );
}

export function createAccounts({ accounts, models, clock }: AccountsDependencies): AccountsService {
  /** The model of an alias that the account has already may have been removed since. */
  async function checkTargets(aliases: readonly ModelAlias[] = [], before: readonly ModelAlias[] = []): Promise<void> {
    const isNew = ({ model }: ModelAlias) => !before.some((each) => each.model === model);
    if (models === undefined || !aliases.some(isNew)) return;
    const check = await createModelCheck(models);
    for (const [index, alias] of aliases.entries()) {
      const { slug } = parseReference(alias.model) ?? { slug: alias.model };
      if (isNew(alias)) check(slug, ['aliases', index, 'model']);
    }
  }

  async function change(
    action: AuditAction,
    { account, changes, by }: { account: Account; changes: Changes<AccountSettings & AccountState>; by: ChangeOrigin },
  ): Promise<Account> {
    checkAliases(changes.aliases);
    await checkTargets(changes.aliases, account.aliases);
    checkWeight(changes.weight);
    const entryOf = changeEntries(by, clock.now()).accountChanged(action);
    const changed = await accounts.update(account.id, changes, (before, after) => {
      checkNotDeleted(before);
      checkRetention(after);
      return entryOf(before, after);
    });
    return changed ?? account;
  }

  return {
    async create(name, settings, by) {
      if (!NAME.test(name)) {
        throw errors.invalidParameter(
          ['name'],
          fieldText`${['name']} must be 1 to 64 letters, digits, spaces, '.', '_' or '-'.`,
        );
      }
      checkAliases(settings.aliases);
      await checkTargets(settings.aliases);
      checkWeight(settings.weight);
      checkRetention(settings);
      const account: Account = {
        id: createId('acct', clock.now()),
        name,
        createdAt: clock.now(),
        suspendedAt: null,
        deletedAt: null,
        erasedAt: null,
        ...withInitial<AccountSettings>(ACCOUNT_SETTINGS, settings),
      };
      try {
        await accounts.create(account, changeEntries(by, clock.now()).accountCreated(account));
      } catch (error) {
        if (!(error instanceof DuplicateError)) throw error;
        throw errors.invalidParameter(['name'], `An account with the name '${name}' exists already.`);
      }
      return account;
    },
    update: (account, changes, by) => change('account.changed', { account, changes, by }),
    list: (search) => accounts.list({ search }),
    async page({ limit, after: afterId, ...filter }, caller) {
      const after = afterId === undefined ? undefined : await accounts.get(afterId);
      if (afterId !== undefined && after === undefined) {
        throw errors.invalidParameter(['after'], `There is no account '${afterId}'.`);
      }
      return readPage((most) => accounts.list({ ...filter, after, limit: most }, caller), limit);
    },
    find: async (idOrName) => (await accounts.get(idOrName)) ?? (await accounts.findByName(idOrName)),
    async ofKeys(keys) {
      const found = await accounts.getMany([...new Set(keys.map(({ accountId }) => accountId))]);
      return new Map(found.map((account) => [account.id, account]));
    },
    suspend: async (account, by) =>
      account.suspendedAt === null
        ? change('account.suspended', { account, changes: { suspendedAt: clock.now() }, by })
        : account,
    resume: async (account, by) =>
      account.suspendedAt === null
        ? account
        : change('account.resumed', { account, changes: { suspendedAt: null }, by }),
    delete: async (account, by) =>
      account.deletedAt === null
        ? change('account.deleted', {
            account,
            changes: { name: `${account.name} ${account.id}`, deletedAt: clock.now() },
            by,
          })
        : account,
  };
}

export interface PageRequest {
  limit: number;
  /** Id of the last one seen. */
  after?: string | undefined;
  newestFirst?: boolean | undefined;
  /** A part of the name or the prefix, or an id. */
  search?: string | undefined;
  /** Only those with a monthly budget. */
  hasBudget?: boolean | undefined;
}

export interface Page<T> {
  items: T[];
  hasMore: boolean;
}

/** Reads one item more than the limit, which shows whether there are more. */
export async function readPage<T>(read: (limit: number) => Promise<readonly T[]>, limit: number): Promise<Page<T>> {
  const found = await withReportAdvice(read(limit + 1), { field: ['search'], advice: 'Ask for fewer at a time.' });
  return { items: found.slice(0, limit), hasMore: found.length > limit };
}
