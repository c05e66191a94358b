import { versionText } from '../compose/version.ts';
import { serverToWire } from '../compose/wire-shapes.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import { formatDuration } from './progress.ts';
import { openForReading } from './store-for-reading.ts';
import { minuteText, table } from './table.ts';

const SHOWN_CLOCK_MS = 1_000;

export const statusCommand: Command = {
  forms: [['[--json]', 'every server on the database: health, what is away and since when']],
  options: [['--json', 'print JSON, as GET /v1/admin/servers does']],
  async run(context) {
    const { values, positionals } = parseOptions(context.args, { json: { type: 'boolean' } });
    if (positionals.length > 0) throw new UsageError(`unexpected argument '${positionals.join(' ')}'`);
    await using administration = await openForReading(context);
    const { servers, now } = await administration.servers();
    if (values.json) return context.print(JSON.stringify(servers.map(serverToWire)));
    if (servers.length === 0) throw new CommandFailed('no server runs');
    const rows = servers.map(({ name, version, commit, status, startedAt, seenAt, clockAheadMs, problems }) => [
      name,
      versionText(version, commit),
      status,
      minuteText(startedAt),
      `${formatDuration(Math.max(0, now - seenAt) / 1_000)} ago`,
      Math.abs(clockAheadMs) < SHOWN_CLOCK_MS ? 'right' : `${Math.round(clockAheadMs / 1_000)} s ahead`,
      problems.map(({ reason, since }) => `${reason} (since ${minuteText(since)})`).join('; ') || '-',
    ]);
    context.print(table(['SERVER', 'VERSION', 'STATUS', 'STARTED', 'SEEN', 'CLOCK', 'PROBLEMS'], rows));
  },
};
