import { setTimeout as sleep } from 'node:timers/promises';
import { type Batch, isActive, requestCounts } from '@baobab/core/domain/batch.ts';
import { addUsed, consumptionOf, MEASURE_NAMES, MEASURES } from '@baobab/core/domain/measures.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { openAdministration } from '../compose/administration.ts';
import { batchToWire } from '../compose/wire-shapes.ts';
import { requireAccount } from './accounts.ts';
import { nothing, one, readAction, withOptions } from './actions.ts';
import { type Command, CommandFailed } from './command.ts';
import { countOption, parseOptions } from './options.ts';
import { createShareView } from './progress.ts';
import { openForReading } from './store-for-reading.ts';
import { minuteText, table } from './table.ts';

const WATCH_MS = 500;
const DEFAULT_LIMIT = 50;
const MOST = 100;

const iso = (ms: number | null): string => (ms === null ? '-' : new Date(ms).toISOString());

const done = (batch: Batch): string => {
  const { total, completed, failed } = requestCounts(batch);
  return `${completed + failed} of ${total}${failed === 0 ? '' : `, ${failed} failed`}`;
};

const usd = (nanoUsd: bigint | number): string => `$${usdText(nanoUsd)}`;

/** Unknown until the batch has ended. */
function costOf({ bills }: Batch): string {
  if (bills === null) return '-';
  const total = usd(bills.reduce((sum, { costNanoUsd }) => sum + BigInt(costNanoUsd), 0n));
  if (bills.length < 2) return total;
  return `${total}: ${bills.map(({ model, costNanoUsd }) => `${model} ${usd(costNanoUsd)}`).join(', ')}`;
}

/** Unknown until the batch has ended. */
function usedBy({ bills }: Batch): string {
  if (bills === null) return '-';
  const used = consumptionOf({});
  for (const bill of bills) addUsed(used, bill);
  return MEASURE_NAMES.filter((name) => MEASURES[name].unit === 'tokens' || used[name] > 0)
    .map((name) => `${used[name]} ${MEASURES[name].short}${MEASURES[name].unit === 'seconds' ? ' s' : ''}`)
    .join(', ');
}

/** Below are those of the input only. */
const everyFailure = (fileId: string): string => `${fileId}: every failed line, GET /v1/files/${fileId}/content`;

function details(batch: Batch, account: string): string {
  const rows: [string, string][] = [
    ['batch', batch.id],
    ['account', account],
    ['key', batch.keyId],
    ['endpoint', batch.endpoint],
    ['status', batch.status],
    ['lines', done(batch)],
    ['model', batch.bills?.map(({ model }) => model).join(', ') || '-'],
    ['tokens', usedBy(batch)],
    ['cost', costOf(batch)],
    ['input', batch.inputFileId],
    ['output', batch.outputFileId ?? '-'],
    ['errors', batch.errorFileId === null ? '-' : everyFailure(batch.errorFileId)],
    ['created', iso(batch.createdAt)],
    ['expires', iso(batch.expiresAt)],
    ['ended', iso(batch.endedAt)],
  ];
  const problems = batch.problems.map(({ line, message }) => `${line === null ? '' : `line ${line}: `}${message}`);
  return [...rows.map(([name, value]) => `${name.padEnd(9)} ${value}`), ...problems.map((each) => `  ${each}`)].join(
    '\n',
  );
}

const ACTIONS = {
  list: withOptions(nothing, 'account', 'limit'),
  show: withOptions(one('an id'), 'watch'),
  cancel: withOptions(one('an id')),
};

export const batchesCommand: Command = {
  forms: [
    ['list [--account NAME]', 'the newest batches'],
    ['show <id> [--watch]', 'one batch; --watch follows it until it ends'],
    ['cancel <id>', 'stop it; lines that have run keep their results'],
  ],
  options: [
    ['--account NAME', 'list: only batches of this account'],
    ['--limit N', `list: how many, at most ${MOST}; default: ${DEFAULT_LIMIT}`],
    ['--json', 'print JSON'],
  ],
  async run(context) {
    const { args, config, print } = context;
    const { values, positionals } = parseOptions(args, {
      account: { type: 'string' },
      limit: { type: 'string' },
      watch: { type: 'boolean' },
      json: { type: 'boolean' },
    });
    const { action, following } = readAction('batches', ACTIONS, { values, positionals });
    const [id = ''] = following;
    const limit = countOption('limit', values.limit, MOST) ?? DEFAULT_LIMIT;
    await using administration = await (action === 'cancel' ? openAdministration(config) : openForReading(context));
    const { batches, accounts } = administration;

    async function find(): Promise<Batch> {
      const batch = await batches.get(id);
      if (batch === undefined) throw new CommandFailed(`there is no batch '${id}'; 'baobab batches list' shows them`);
      return batch;
    }
    const toJson = (batch: Batch) => ({ account_id: batch.accountId, key_id: batch.keyId, ...batchToWire(batch) });
    const accountName = async (accountId: string) => (await accounts.find(accountId))?.name ?? accountId;

    async function watch(): Promise<Batch> {
      const bar = createShareView(process.stderr, systemClock);
      let batch = await find();
      while (isActive(batch.status)) {
        const { total, completed, failed } = batch.counts;
        bar.update(`${batch.id} ${batch.status}`, total === 0 ? null : (completed + failed) / total, [done(batch)]);
        await sleep(WATCH_MS);
        batch = await find();
      }
      bar.finish(`${batch.id} ${batch.status}, ${done(batch)}`);
      return batch;
    }

    if (action === 'list') {
      const owner = values.account === undefined ? undefined : await requireAccount(accounts, values.account);
      const found = await batches.list({ accountId: owner?.id, limit });
      if (values.json) print(JSON.stringify(found.map(toJson)));
      else {
        const names = new Map((await accounts.list()).map((each) => [each.id, each.name]));
        const rows = found.map((batch) => [
          batch.id,
          names.get(batch.accountId) ?? batch.accountId,
          batch.endpoint,
          batch.status,
          done(batch),
          minuteText(batch.createdAt),
        ]);
        print(table(['ID', 'ACCOUNT', 'ENDPOINT', 'STATUS', 'LINES', 'CREATED'], rows));
      }
    } else if (action === 'show') {
      const batch = values.watch ? await watch() : await find();
      print(values.json ? JSON.stringify(toJson(batch)) : details(batch, await accountName(batch.accountId)));
    } else {
      await find();
      // A running server sees this within a second and ends the batch. Otherwise the next start does.
      await batches.cancel(id, systemClock.now());
      const batch = await find();
      if (batch.cancellingAt === null)
        throw new CommandFailed(`the batch '${id}' is '${batch.status}': nothing to cancel`);
      print(values.json ? JSON.stringify(toJson(batch)) : `${batch.id} ${batch.status}, ${done(batch)}`);
    }
  },
};
