import { openAdministration } from '../compose/administration.ts';
import type { ApiKey } from '../domain/principal.ts';
import { parseScopes, type Scope } from '../domain/scopes.ts';
import { parseTimestamp } from '../domain/timestamps.ts';
import { nothing, one, readAction } from './actions.ts';
import { type Command, CommandFailed, OptionError } from './command.ts';
import { dollarsOption, durationOption, integerOption, parseOptions } from './options.ts';
import { table } from './table.ts';

const names = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

function scopesOption(text: string | undefined): Scope[] | undefined {
  try {
    const given = names(text);
    return given === undefined ? undefined : parseScopes(given);
  } catch (error) {
    throw new OptionError((error as Error).message);
  }
}

function stateOf(key: ApiKey, now: number): string {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt === null) return 'active';
  return Date.parse(key.expiresAt) <= now ? 'expired' : `until ${key.expiresAt}`;
}

const ACTIONS = { create: one('a name'), list: nothing, revoke: one('an id'), rotate: one('an id') };

export const keysCommand: Command = {
  usage: [
    'create <name> [--account NAME] [--scopes chat,embeddings,…] [--models "baobab/*,…"] [--regions …]\n' +
      '       [--rpm N] [--tpm N] [--concurrency N] [--monthly-budget USD] [--expires ISO-TIME] [--json]',
    'list [--account NAME] [--json]',
    'revoke <id> [--json]',
    'rotate <id> [--grace 24h] [--json]',
  ],
  async run({ args, config, print }) {
    const { values, positionals } = parseOptions(args, {
      account: { type: 'string' },
      scopes: { type: 'string' },
      models: { type: 'string' },
      regions: { type: 'string' },
      rpm: { type: 'string' },
      tpm: { type: 'string' },
      concurrency: { type: 'string' },
      'monthly-budget': { type: 'string' },
      expires: { type: 'string' },
      grace: { type: 'string' },
      json: { type: 'boolean' },
    });
    const { action, following } = readAction('keys', ACTIONS, positionals);
    const [subject = ''] = following;
    const scopes = scopesOption(values.scopes);
    await using administration = await openAdministration(config);
    const { keys } = administration;

    async function account(name: string) {
      const found = await keys.findAccount(name);
      if (found === undefined)
        throw new CommandFailed(`there is no account '${name}'; 'baobab accounts list' shows them`);
      return found;
    }
    const printSecret = (key: ApiKey, secret: string, text: string) => {
      if (values.json) print(JSON.stringify({ ...key, secret }));
      else print(`${text}\n\n    ${secret}\n\nIt is shown this once only: store it now.`);
    };

    if (action === 'create') {
      const issued = await keys.createKey(await account(values.account ?? 'default'), {
        name: subject,
        scopes,
        allowedModels: names(values.models),
        allowedRegions: names(values.regions),
        rpm: integerOption('rpm', values.rpm),
        tpm: integerOption('tpm', values.tpm),
        concurrency: integerOption('concurrency', values.concurrency),
        monthlyBudgetNanoUsd: dollarsOption('monthly-budget', values['monthly-budget']),
        expiresAt:
          values.expires === undefined ? null : new Date(parseTimestamp(values.expires, 'expires')).toISOString(),
      });
      printSecret(issued.key, issued.secret, `created key ${issued.key.id} (${issued.key.scopes.join(', ')})`);
    } else if (action === 'list') {
      const owner = values.account === undefined ? undefined : await account(values.account);
      const found = await keys.listKeys(owner?.id);
      if (values.json) print(JSON.stringify(found));
      else {
        const accounts = new Map((await keys.listAccounts()).map((each) => [each.id, each.name]));
        const rows = found.map((key) => [
          key.id,
          `${key.prefix}…`,
          key.name,
          accounts.get(key.accountId) ?? key.accountId,
          stateOf(key, Date.now()),
          key.lastUsedAt ?? 'never',
          key.scopes.join(','),
        ]);
        print(table(['ID', 'KEY', 'NAME', 'ACCOUNT', 'STATE', 'LAST USED', 'SCOPES'], rows));
      }
    } else if (action === 'revoke') {
      const key = await keys.revokeKey(subject);
      if (key === undefined) throw new CommandFailed(`there is no key '${subject}'; 'baobab keys list' shows them`);
      print(values.json ? JSON.stringify(key) : `revoked ${key.id}`);
    } else {
      const rotated = await keys.rotateKey(subject, durationOption('grace', values.grace ?? '24h') ?? 0);
      if (rotated === undefined) throw new CommandFailed(`there is no key '${subject}'; 'baobab keys list' shows them`);
      const old = rotated.previous.revokedAt === null ? `goes on until ${rotated.previous.expiresAt}` : 'was revoked';
      printSecret(rotated.key, rotated.secret, `created key ${rotated.key.id}; the old one ${old}`);
    }
  },
};
