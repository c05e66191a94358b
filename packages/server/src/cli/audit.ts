import { AUDIT_ACTIONS } from '@baobab/core/domain/audit/entry.ts';
import { parseTime } from '@baobab/core/domain/usage-window.ts';
import { auditEntryToWire } from '../compose/wire-shapes.ts';
import { requireAccount } from './accounts.ts';
import { type Command, UsageError } from './command.ts';
import { countOption, parseOptions } from './options.ts';
import { openForReading } from './store-for-reading.ts';
import { table } from './table.ts';

type Entry = ReturnType<typeof auditEntryToWire>;
type Value = Entry['changes'][number]['before'];

const DEFAULT_LIMIT = 50;
const MOST = 200;
const FILTERS = ['account', 'actor', 'action', 'target', 'start', 'end'] as const;
/** Longest list in the table. JSON shows all that is kept. */
const MOST_SHOWN = 60;

function actionOption(given: string | undefined) {
  const found = AUDIT_ACTIONS.find((each) => each === given);
  if (given === undefined || found !== undefined) return found;
  throw new UsageError(`--action must be one of ${AUDIT_ACTIONS.join(', ')}, not '${given}'`);
}

const actorText = ({ actor }: Entry): string => {
  if (actor.type === 'server') return `server on ${actor.host}`;
  if (actor.type === 'operator') return `${actor.name} on ${actor.host}`;
  return `${actor.name} (${actor.account_name})`;
};

const targetText = ({ target }: Entry): string =>
  target.type === 'key' ? `${target.name} (${target.account_name})` : target.name;

function valueText(value: Value): string {
  if (value === null) return 'none';
  if (!Array.isArray(value)) return String(value);
  const text = value.length === 0 ? 'none' : value.join(',');
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN - 1)}…` : text;
}

const changeText = ({ field, before, after }: Entry['changes'][number], isNew: boolean): string =>
  isNew ? `${field} ${valueText(after)}` : `${field} ${valueText(before)} → ${valueText(after)}`;

const changesText = ({ action, changes }: Entry): string => {
  const isNew = /\.(created|added)$/.test(action);
  return changes.map((change) => changeText(change, isNew)).join('; ') || '-';
};

const entryTable = (entries: readonly Entry[]): string =>
  table(
    ['TIME', 'ACTION', 'TARGET', 'BY', 'FROM', 'CHANGES'],
    entries.map((entry) => [
      `${entry.time.slice(0, 19)}Z`,
      entry.action,
      targetText(entry),
      actorText(entry),
      entry.address === null ? entry.via : `${entry.via} ${entry.address}`,
      changesText(entry),
    ]),
  );

export const auditCommand: Command = {
  forms: [['[options]', 'who changed accounts, keys and models: the newest 50 changes']],
  options: [
    ['--account NAME', 'changes of an account and its keys, by name or id'],
    ['--actor ID', "changes made with a key; 'operator': on the command line, 'server': by the server itself"],
    ['--action NAME', AUDIT_ACTIONS.join(', ')],
    ['--target ID', 'changes of a key, an account or a model'],
    ['--start DATE', 'such as 2026-11-01 or 2026-11-01T12:00:00Z'],
    ['--end DATE', 'exclusive'],
    ['--limit N', `how many, at most ${MOST}; default: ${DEFAULT_LIMIT}`],
    ['--json', 'print JSON, as GET /v1/admin/audit does'],
  ],
  async run(context) {
    const { args, config, print } = context;
    const text = { type: 'string' } as const;
    const { values, positionals } = parseOptions(args, {
      account: text,
      actor: text,
      action: text,
      target: text,
      start: text,
      end: text,
      limit: text,
      json: { type: 'boolean' },
    });
    if (positionals.length > 0) {
      throw new UsageError(`unexpected argument '${positionals.join(' ')}'; --account NAME names an account`);
    }
    const action = actionOption(values.action);
    const limit = countOption('limit', values.limit, MOST) ?? DEFAULT_LIMIT;
    const start = values.start === undefined ? undefined : parseTime(values.start, ['start']);
    const end = values.end === undefined ? undefined : parseTime(values.end, ['end']);
    await using administration = await openForReading(context);
    const { accounts, audit } = administration;
    const account = values.account === undefined ? undefined : await requireAccount(accounts, values.account);
    const filter = { accountId: account?.id, actorId: values.actor, targetId: values.target, action, start, end };
    const { entries } = await audit.list(filter, { limit });
    const shown = entries.map(auditEntryToWire);
    if (values.json) print(JSON.stringify(shown));
    else if (shown.length > 0) print(entryTable(shown));
    else {
      const filters = FILTERS.flatMap((name) => (values[name] === undefined ? [] : [`--${name} ${values[name]}`]));
      print(filters.length === 0 ? `no changes in ${config.dataDir}` : `no changes match ${filters.join(' ')}`);
    }
  },
};
