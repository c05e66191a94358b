import {
  addUsed,
  DIMENSION_NAMES,
  DIMENSIONS,
  type DimensionName,
  MEASURE_NAMES,
  MEASURES,
} from '@baobab/core/domain/measures.ts';
import { usdText } from '@baobab/core/domain/money.ts';
import { offsetAt } from '@baobab/core/domain/time/time-zone.ts';
import { parseTimeZoneField, type UsageWindow } from '@baobab/core/domain/usage-window.ts';
import { bucketToWire, sumsToWire, usageToCsv } from '../compose/wire-shapes.ts';
import type { UsageBucket, UsageSums } from '../services/usage/usage.ts';
import { DEFAULT_ACCOUNT, requireAccount } from './accounts.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { countOption, parseOptions } from './options.ts';
import { openForReading } from './store-for-reading.ts';
import { table } from './table.ts';

const BAR_WIDTH = 30;
const MOST_GROUPS = 1_000;
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

function bar(value: bigint, largest: bigint): string {
  if (largest === 0n) return '';
  const eighths = Number((value * BigInt(BAR_WIDTH * 8)) / largest);
  return '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
}

/** With the account when several accounts are reported. */
type Bucket = UsageBucket & { owner?: { id: string; name: string } };

/** Characters of a bucket's start. */
const SHOWN = { hour: 16, day: 10, month: 7 };

/** What people call a group. */
function groupText(bucket: Bucket, name: DimensionName): string {
  const { id, label } = DIMENSIONS[name];
  if (bucket.isOther) return 'other';
  return (
    (name === 'account' ? bucket.owner?.name : undefined) ??
    (label === null ? undefined : bucket[label]) ??
    bucket[id] ??
    ''
  );
}

const COUNTS = ['requests', ...MEASURE_NAMES] as const;
const HEADINGS = MEASURE_NAMES.map((name) => `${MEASURES[name].short}${MEASURES[name].unit === 'seconds' ? ' s' : ''}`);

function add(left: UsageSums, right: UsageSums): UsageSums {
  const requests = left.requests + right.requests;
  const sums = { ...left, requests, costNanoUsd: left.costNanoUsd + right.costNanoUsd };
  addUsed(sums, right);
  return sums;
}

/** What the clocks of the zone show, as ISO 8601 without a zone. */
const localText = (zone: string, time: number): string =>
  new Date(time + offsetAt(zone, time)).toISOString().slice(0, -1);

/** A day without its midnight. */
const timeText = (zone: string, time: number): string => {
  const text = localText(zone, time).replace('T00:00:00.000', '');
  return zone === 'UTC' && text.includes('T') ? `${text}Z` : text;
};

const windowText = ({ start, end, timeZone = 'UTC' }: UsageWindow, untilNow: boolean): string =>
  `from ${timeText(timeZone, start)} to ${untilNow ? 'now' : timeText(timeZone, end)} (${timeZone})`;

export const usageCommand: Command = {
  forms: [['[options]', "default: the account 'default', from the first of this month until now, by day"]],
  options: [
    ['--account NAME', 'an account by name or id'],
    ['--all', 'every account, each on its own lines'],
    ['--start DATE', 'such as 2026-11-01 or 2026-11-01T12:00:00Z; default: the first of this month'],
    ['--end DATE', 'exclusive; default: now'],
    ['--time-zone ZONE', 'of hours, days and months, such as Africa/Nairobi; default: UTC'],
    ['--bucket hour|day|month', 'default: day'],
    ['--group-by LIST', `${DIMENSION_NAMES.join(', ')}; several are separated by commas`],
    ['--top N', 'with --group-by: only the groups that cost most, and the sum of the others'],
    ['--csv, --json', 'print CSV or JSON'],
  ],
  async run(context) {
    const { args, print } = context;
    const { values, positionals } = parseOptions(args, {
      account: { type: 'string' },
      all: { type: 'boolean' },
      start: { type: 'string' },
      end: { type: 'string' },
      bucket: { type: 'string' },
      'group-by': { type: 'string' },
      top: { type: 'string' },
      'time-zone': { type: 'string' },
      csv: { type: 'boolean' },
      json: { type: 'boolean' },
    });
    if (positionals.length > 0) {
      throw new UsageError(`unexpected argument '${positionals.join(' ')}'; --account NAME names an account`);
    }
    if (values.all && values.account !== undefined) throw new UsageError('--all and --account exclude each other');
    const timeZone = parseTimeZoneField(values['time-zone']);
    const top = countOption('top', values.top, MOST_GROUPS);
    const request = {
      start: values.start ?? `${localText(timeZone, Date.now()).slice(0, 7)}-01`,
      end: values.end,
      bucket: values.bucket,
      groupBy: values['group-by'],
      top,
      timeZone,
      forOperators: true,
    };
    await using administration = await openForReading(context);
    const { accounts, usage } = administration;
    usage.check(request);
    const chosen = values.all
      ? await accounts.list()
      : [await requireAccount(accounts, values.account ?? DEFAULT_ACCOUNT)];

    const reports = [];
    for (const account of chosen) {
      reports.push({ account, ...(await usage.report(account.id, request)) });
    }
    const [first] = reports;
    if (first === undefined) throw new CommandFailed('there are no accounts yet');
    const { window } = first;
    const totals = reports.map((report) => report.totals).reduce(add);
    const buckets: Bucket[] = values.all
      ? reports
          .flatMap(({ account: { id, name }, buckets }) =>
            buckets.map((bucket) => ({ owner: { id, name }, ...bucket })),
          )
          .sort((left, right) => Date.parse(left.start) - Date.parse(right.start))
      : first.buckets;

    const groups = [...new Set<DimensionName>([...(values.all ? ['account' as const] : []), ...window.groupBy])];
    const startOf = ({ start }: UsageBucket) => localText(timeZone, Date.parse(start)).slice(0, SHOWN[window.bucket]);
    if (values.json) {
      const shown = buckets.map((bucket) => ({
        ...(bucket.owner === undefined ? {} : { account: bucket.owner.name }),
        ...bucketToWire(bucket),
      }));
      print(JSON.stringify({ object: 'usage', buckets: shown, totals: sumsToWire(totals) }));
    } else if (values.csv) {
      const csv = usageToCsv({
        window: { ...window, groupBy: groups },
        buckets: buckets.map(({ owner, ...bucket }) =>
          owner === undefined ? bucket : { ...bucket, accountId: owner.id, accountName: owner.name },
        ),
      });
      print(csv.replaceAll('\r\n', '\n').trimEnd());
    } else {
      let largest = 0n;
      for (const { costNanoUsd } of buckets) if (costNanoUsd > largest) largest = costNanoUsd;
      const rows = buckets.map((bucket) => [
        startOf(bucket),
        ...groups.map((group) => groupText(bucket, group)),
        ...COUNTS.map((each) => bucket[each].toLocaleString('en-US')),
        `$${usdText(bucket.costNanoUsd)}`,
        bar(bucket.costNanoUsd, largest),
      ]);
      const total = [
        'total',
        ...groups.map(() => ''),
        ...COUNTS.map((each) => totals[each].toLocaleString('en-US')),
        `$${usdText(totals.costNanoUsd)}`,
        '',
      ];
      const headings = [window.bucket, ...groups, 'requests', ...HEADINGS, 'cost', 'share of the highest'];
      const whose = values.all ? 'every account' : `account ${first.account.name}`;
      print(`${whose}, ${windowText(window, values.end === undefined)}\n`);
      print(
        table(
          headings.map((heading) => heading.toUpperCase()),
          [...rows, total],
        ),
      );
    }
  },
};
