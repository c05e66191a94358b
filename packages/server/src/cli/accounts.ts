import { isOperator } from '@baobab/core/domain/operations.ts';
import { type Account, type ApiKey, accountStatus, definedFields } from '@baobab/core/domain/principal.ts';
import type { LimitRules } from '@baobab/core/domain/rate-limits.ts';
import { type Administration, openAdministration } from '../compose/administration.ts';
import { accountToWire } from '../compose/wire-shapes.ts';
import type { AccountsService } from '../services/access/accounts.ts';
import { nothing, one, readAction, withOptions } from './actions.ts';
import { type Command, type CommandContext, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import {
  ACCOUNT_OPTIONS,
  accountChangesText,
  accountLimitsText,
  accountSettingsFrom,
  defaultsText,
  LIMIT_HELP,
} from './rights.ts';
import { openForReading } from './store-for-reading.ts';
import { minuteText, table } from './table.ts';

function retentionText({ zeroRetention, storePrompts, fileRetentionDays }: Account): string {
  const kept = zeroRetention ? 'zero' : storePrompts ? 'prompts' : '';
  const parts = [kept, fileRetentionDays === null ? '' : `files ${fileRetentionDays} days`];
  return parts.filter((part) => part !== '').join(', ') || '-';
}

function accountTable(accounts: readonly Account[], rules: LimitRules): string {
  const rows = accounts.map((each) => [
    each.id,
    each.name,
    accountStatus(each),
    accountLimitsText(each, rules),
    retentionText(each),
    minuteText(each.createdAt),
  ]);
  const columns = table(['ID', 'NAME', 'STATE', 'LIMITS', 'RETENTION', 'CREATED'], rows);
  return `${columns}\n\n${defaultsText(rules)}`;
}

/** The first start creates it, and commands mean it when none is named. */
export const DEFAULT_ACCOUNT = 'default';

export async function requireAccount(accounts: AccountsService, name: string): Promise<Account> {
  const found = await accounts.find(name);
  if (found !== undefined) return found;
  const existing = await accounts.list();
  if (existing.length === 0) {
    throw new CommandFailed(`there is no account '${name}'; the first start of the server creates the first one`);
  }
  const hint = name === DEFAULT_ACCOUNT ? `'baobab accounts create ${DEFAULT_ACCOUNT}' creates it; ` : '';
  throw new CommandFailed(`there is no account '${name}'; ${hint}'baobab accounts list' shows all accounts`);
}

/** After a change that may have taken it away. */
export async function warnWithoutOperator(
  { accounts, keys }: Administration,
  warn: CommandContext['warn'],
): Promise<void> {
  const holders = (await keys.listKeys()).filter((key) => isOperator(key) && isValid(key));
  const owners = await accounts.ofKeys(holders);
  if ([...owners.values()].some((owner) => accountStatus(owner) === 'active')) return;
  const active = (await accounts.list()).filter((each) => accountStatus(each) === 'active');
  const [owner = { name: DEFAULT_ACCOUNT }] = active.toSorted(
    (one, other) => Number(other.name === DEFAULT_ACCOUNT) - Number(one.name === DEFAULT_ACCOUNT),
  );
  const first = active.length === 0 ? `'baobab accounts create ${owner.name}', then ` : '';
  const account = owner.name === DEFAULT_ACCOUNT ? '' : ` --account '${owner.name}'`;
  warn?.(
    `warning: no key can administer this server any more; ${first}"baobab keys create me --scopes all${account}" makes one`,
  );
}

const isValid = ({ revokedAt, expiresAt }: ApiKey): boolean =>
  revokedAt === null && (expiresAt === null || expiresAt > Date.now());

const ACTIONS = {
  create: withOptions(one('a name'), ...Object.keys(ACCOUNT_OPTIONS)),
  list: withOptions(nothing, 'search'),
  update: withOptions(one('a name'), ...Object.keys(ACCOUNT_OPTIONS)),
  suspend: withOptions(one('a name')),
  resume: withOptions(one('a name')),
  delete: withOptions(one('a name'), 'yes'),
};

export const accountsCommand: Command = {
  forms: [
    ['create <name> [options]', 'create an account; its keys share its limits'],
    ['list [--search TEXT]', 'accounts with their limits'],
    ['update <name> [options]', "change the settings that are given; 'none' removes a limit"],
    ['suspend <name>', 'refuse its keys until it is resumed'],
    ['resume <name>', 'accept its keys again'],
    ['delete <name> --yes', 'revoke its keys and erase its files, batches and stored answers; usage is kept'],
  ],
  options: [
    ['--search TEXT', 'list: only those with this part of the name, or this id'],
    ...LIMIT_HELP,
    ['--weight N', 'its share of the work while others wait, 1 to 1000; default: 1'],
    ['--zero-retention yes|no', 'keep nothing of prompts and answers, not even to replay idempotent requests'],
    ['--store-prompts yes|no', 'keep prompts and answers with the requests, for keys with the scope prompts'],
    ['--file-retention-days N', 'delete files after this many days; default: files.retention_days'],
    [
      '--dialect openai|specification',
      'openai: as OpenAI answers where the specification differs; default: specification',
    ],
    [
      '--truncate-inputs end|start|none|default',
      'cut this side of inputs of embeddings and rerank that are too long; none: refuse them; default: as the catalog says',
    ],
    ['--aliases LIST', 'names of models for this account, such as gpt-4o-mini=qwen/qwen3-8b; replaces its list'],
    ['--json', 'print JSON'],
  ],
  // The setting `aliases` is for all accounts.
  commandFlags: ['--aliases'],
  async run(context) {
    const { args, config, print } = context;
    const { values, positionals } = parseOptions(args, {
      ...ACCOUNT_OPTIONS,
      search: { type: 'string' },
      yes: { type: 'boolean' },
      json: { type: 'boolean' },
    });
    const { action, following } = readAction('accounts', ACTIONS, { values, positionals });
    const [name = ''] = following;
    const settings = accountSettingsFrom(values);
    if (action === 'update' && Object.keys(definedFields(settings)).length === 0) {
      throw new UsageError('nothing to change was given; try --rpm 60');
    }
    if (action === 'delete' && !values.yes) {
      throw new CommandFailed('deleting an account cannot be undone; add --yes to do it');
    }
    await using administration = await (action === 'list' ? openForReading(context) : openAdministration(config));
    const { accounts, by } = administration;

    const find = () => requireAccount(accounts, name);
    const rules = await administration.limitRules();
    const show = (account: Account, text: string) =>
      print(values.json ? JSON.stringify(accountToWire(account, rules)) : text);

    if (action === 'create') {
      const account = await accounts.create(name, settings, by);
      const limits = `limits: ${accountLimitsText(account, rules)}\n${defaultsText(rules)}`;
      show(account, `created account ${account.name} (${account.id})\n${limits}`);
    } else if (action === 'update') {
      const account = await accounts.update(await find(), settings, by);
      show(account, `${accountTable([account], rules)}\n\n${accountChangesText(settings, account)}`);
    } else if (action === 'suspend') {
      const account = await accounts.suspend(await find(), by);
      show(account, `suspended account ${account.name}`);
      await warnWithoutOperator(administration, context.warn);
    } else if (action === 'resume') {
      const account = await accounts.resume(await find(), by);
      show(account, `resumed account ${account.name}`);
    } else if (action === 'delete') {
      const account = await accounts.delete(await find(), by);
      show(account, `deleted account ${name} (${account.id}); a running server erases its content within a minute`);
      await warnWithoutOperator(administration, context.warn);
    } else {
      const all = await accounts.list(values.search);
      const toWire = (account: Account) => accountToWire(account, rules);
      if (values.json) print(JSON.stringify(all.map(toWire)));
      else if (all.length === 0 && values.search !== undefined) print(`no account matches '${values.search}'`);
      else print(accountTable(all, rules));
    }
  },
};
