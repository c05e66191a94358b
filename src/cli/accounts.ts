import { openAdministration } from '../compose/administration.ts';
import { nothing, one, readAction } from './actions.ts';
import type { Command } from './command.ts';
import { dollarsOption, integerOption, parseOptions } from './options.ts';
import { table } from './table.ts';

const money = (nano: number | null): string => (nano === null ? '-' : `$${nano / 1e9}`);

export const accountsCommand: Command = {
  usage: ['create <name> [--rpm N] [--tpm N] [--monthly-budget USD] [--json]', 'list [--json]'],
  async run({ args, config, print }) {
    const { values, positionals } = parseOptions(args, {
      json: { type: 'boolean' },
      rpm: { type: 'string' },
      tpm: { type: 'string' },
      'monthly-budget': { type: 'string' },
    });
    const { action, following } = readAction('accounts', { create: one('a name'), list: nothing }, positionals);
    const [name = ''] = following;
    await using administration = await openAdministration(config);
    const { keys } = administration;
    if (action === 'create') {
      const account = await keys.createAccount(name, {
        rpm: integerOption('rpm', values.rpm) ?? null,
        tpm: integerOption('tpm', values.tpm) ?? null,
        monthlyBudgetNanoUsd: dollarsOption('monthly-budget', values['monthly-budget']) ?? null,
      });
      print(values.json ? JSON.stringify(account) : `created account ${account.name} (${account.id})`);
    } else {
      const accounts = await keys.listAccounts();
      if (values.json) print(JSON.stringify(accounts));
      else {
        const rows = accounts.map((each) => [
          each.id,
          each.name,
          each.rpm?.toString() ?? '-',
          each.tpm?.toString() ?? '-',
          money(each.monthlyBudgetNanoUsd),
          each.createdAt,
        ]);
        print(table(['ID', 'NAME', 'RPM', 'TPM', 'BUDGET', 'CREATED'], rows));
      }
    }
  },
};
