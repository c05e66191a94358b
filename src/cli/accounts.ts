import { openAdministration } from '../compose/administration.ts';
import { isoTime } from '../domain/dates.ts';
import { type Account, definedFields } from '../domain/principal.ts';
import { nothing, one, readAction } from './actions.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import { LIMIT_OPTIONS, limitsFrom, limitsText } from './rights.ts';
import { table } from './table.ts';

function accountTable(accounts: readonly Account[]): string {
  const rows = accounts.map((each) => [each.id, each.name, limitsText(each), isoTime(each.createdAt)]);
  return table(['ID', 'NAME', 'LIMITS', 'CREATED'], rows);
}

const accountToJson = (account: Account) => ({ ...account, createdAt: isoTime(account.createdAt) });

const ACTIONS = { create: one('a name'), list: nothing, update: one('a name') };

export const accountsCommand: Command = {
  usage: [
    'create <name> [--rpm N] [--tpm N] [--monthly-budget USD] [--json]',
    'list [--json]',
    "update <name> [--rpm N] [--tpm N] [--monthly-budget USD] [--json]    the word 'none' takes a limit away",
  ],
  async run({ args, config, print }) {
    const { values, positionals } = parseOptions(args, { ...LIMIT_OPTIONS, json: { type: 'boolean' } });
    const { action, following } = readAction('accounts', ACTIONS, positionals);
    const [name = ''] = following;
    const limits = limitsFrom(values);
    await using administration = await openAdministration(config);
    const { keys } = administration;
    if (action === 'create') {
      const account = await keys.createAccount(name, limits);
      print(values.json ? JSON.stringify(accountToJson(account)) : `created account ${account.name} (${account.id})`);
    } else if (action === 'update') {
      if (Object.keys(definedFields(limits)).length === 0)
        throw new UsageError('nothing to change was given; try --rpm 60');
      const found = await keys.findAccount(name);
      const account = found && (await keys.updateAccount(found.id, limits));
      if (account === undefined)
        throw new CommandFailed(`there is no account '${name}'; 'baobab accounts list' shows them`);
      print(values.json ? JSON.stringify(accountToJson(account)) : accountTable([account]));
    } else {
      const accounts = await keys.listAccounts();
      print(values.json ? JSON.stringify(accounts.map(accountToJson)) : accountTable(accounts));
    }
  },
};
