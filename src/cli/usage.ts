import { openAdministration } from '../compose/administration.ts';
import { usdText } from '../domain/money.ts';
import type { UsageBucket } from '../services/usage.ts';
import { snake } from '../validation/names.ts';
import { type Command, CommandFailed } from './command.ts';
import { parseOptions } from './options.ts';
import { table } from './table.ts';

const BAR_WIDTH = 30;
const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

function bar(value: bigint, largest: bigint): string {
  if (largest === 0n) return '';
  const eighths = Number((value * BigInt(BAR_WIDTH * 8)) / largest);
  return '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS[eighths % 8];
}

const GROUP_COLUMNS: Record<string, (bucket: UsageBucket) => string> = {
  model: ({ model }) => model ?? '',
  region: ({ region }) => region ?? '',
  key: ({ keyId, keyName }) => keyName ?? keyId ?? '',
};

const COUNTS = ['requests', 'promptTokens', 'completionTokens', 'cacheReadTokens', 'audioSeconds'] as const;

const csvCell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

export const usageCommand: Command = {
  usage: [
    '[--account NAME] [--start DATE] [--end DATE] [--bucket hour|day|month] [--group-by model,region,key] [--csv | --json]',
  ],
  async run({ args, config, print }) {
    const { values } = parseOptions(args, {
      account: { type: 'string' },
      start: { type: 'string' },
      end: { type: 'string' },
      bucket: { type: 'string' },
      'group-by': { type: 'string' },
      csv: { type: 'boolean' },
      json: { type: 'boolean' },
    });
    await using administration = await openAdministration(config);
    const name = values.account ?? 'default';
    const account = await administration.keys.findAccount(name);
    if (account === undefined)
      throw new CommandFailed(`there is no account '${name}'; 'baobab accounts list' shows them`);
    const { buckets, totals, window } = await administration.usage.report(account.id, {
      start: values.start ?? `${new Date().toISOString().slice(0, 7)}-01`,
      end: values.end,
      bucket: values.bucket,
      groupBy: values['group-by'],
    });

    const groups = window.groupBy.map(
      (group) => [group, GROUP_COLUMNS[group] as (bucket: UsageBucket) => string] as const,
    );
    const startOf = ({ start }: UsageBucket) =>
      window.bucket === 'hour' ? start.slice(0, 16) : start.slice(0, window.bucket === 'day' ? 10 : 7);
    if (values.json) {
      print(JSON.stringify({ buckets, totals }, (_, value) => (typeof value === 'bigint' ? usdText(value) : value)));
    } else if (values.csv) {
      print(['start', 'end', ...groups.map(([group]) => group), ...COUNTS.map(snake), 'cost_usd'].join(','));
      for (const bucket of buckets) {
        const cells = [
          bucket.start,
          bucket.end,
          ...groups.map(([, cell]) => cell(bucket)),
          ...COUNTS.map((each) => String(bucket[each])),
        ];
        print([...cells, usdText(bucket.costNanoUsd)].map(csvCell).join(','));
      }
    } else {
      let largest = 0n;
      for (const { costNanoUsd } of buckets) if (costNanoUsd > largest) largest = costNanoUsd;
      const rows = buckets.map((bucket) => [
        startOf(bucket),
        ...groups.map(([, cell]) => cell(bucket)),
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
      const headings = [
        window.bucket,
        ...window.groupBy,
        'requests',
        'prompt',
        'completion',
        'cached',
        'audio s',
        'cost',
        '',
      ];
      print(
        table(
          headings.map((heading) => heading.toUpperCase()),
          [...rows, total],
        ),
      );
    }
  },
};
