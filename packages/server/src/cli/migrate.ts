import { readFile } from 'node:fs/promises';
import { usdText } from '@baobab/core/domain/money.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { systemReason } from '@baobab/core/runtime/system-reason.ts';
import {
  countAddedModels,
  hasOwnStore,
  TransferError,
  type TransferSummary,
  transferTo,
} from '../compose/administration.ts';
import { type Command, type CommandContext, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import { createShareView, formatBytes } from './progress.ts';
import { table } from './table.ts';

/** Most equal accounts to show; different ones are all shown. */
const SHOWN_ACCOUNTS = 20;

interface Choice {
  url: string;
  json: boolean;
}

const isPostgres = (text: string): boolean => /^postgres(ql)?:\/\/./.test(text) && URL.canParse(text);

const readAddress = (file: string): Promise<string> =>
  readFile(file, 'utf8').then(
    (text) => text.trim(),
    (error: unknown) => {
      throw new UsageError(`cannot read --to-file ${file}: ${systemReason(error)}`);
    },
  );

async function choose({ args, config, warn }: CommandContext): Promise<Choice> {
  const { values, positionals } = parseOptions(args, {
    to: { type: 'string' },
    'to-file': { type: 'string' },
    json: { type: 'boolean' },
  });
  const { to, 'to-file': file, json = false } = values;
  if (positionals.length > 0) throw new UsageError(`'${positionals[0]}' is not an option`);
  const url = to ?? (file === undefined ? config.store : await readAddress(file));
  if (url === undefined) throw new UsageError('name the new database with --to postgres://…');
  if (!isPostgres(url)) throw new UsageError('the new database must be an address such as postgres://user@host/baobab');
  if (to !== undefined && new URL(to).password !== '') {
    warn?.('note: other users of this machine can see the password in --to; --to-file reads the address from a file');
  }
  return { url, json };
}

const equality = (equal: boolean): string => (equal ? 'equal' : 'DIFFERENT');

function tablesText({ tables }: NonNullable<TransferSummary['rows']>): string {
  const rows = tables.map(({ table: name, rowsHere, rowsThere, equal }) => [
    name,
    `${rowsHere}`,
    `${rowsThere}`,
    equality(equal),
  ]);
  return table(['table', 'rows here', 'rows there', 'rows'], rows);
}

function accountsText({ accounts }: NonNullable<TransferSummary['rows']>): string {
  const different = accounts.filter(({ equal }) => !equal);
  const equal = accounts.filter((each) => each.equal);
  const sides = [...different, ...equal.slice(0, SHOWN_ACCOUNTS)].flatMap(({ account, here, there, equal: same }) => {
    const row = (place: string, sums: typeof here) => [
      account,
      place,
      sums?.requests ?? '0',
      sums?.tokens ?? '0',
      `$${usdText(BigInt(sums?.costNanoUsd ?? 0))}`,
      equality(same),
    ];
    return same ? [row('both', here)] : [row('here', here), row('there', there)];
  });
  const more = equal.length - SHOWN_ACCOUNTS;
  const text = table(['account', 'database', 'requests', 'tokens', 'spent', 'sums'], sides);
  return more > 0 ? `${text}\nand ${more} more accounts, all equal` : text;
}

function blobsText({
  blobs: count,
  bytes,
  files,
  wrongFiles,
  lostBefore,
}: NonNullable<TransferSummary['blobs']>): string {
  const lines = [
    `${count} blobs, ${formatBytes(bytes)}, read back with the same SHA-256; ${files} files have the checksum of their record`,
    ...wrongFiles.map((key) => `DIFFERENT: ${key}`),
    ...lostBefore.map((key) => `note: the data directory does not have ${key} either`),
  ];
  return lines.join('\n');
}

async function notesOf({ blobs, equal }: TransferSummary, { config }: CommandContext): Promise<string[]> {
  if (!equal) return [];
  const added = await countAddedModels(config);
  return [
    blobs === undefined
      ? `The bytes of files stay in ${config.dataDir}/blobs: only a server with this data_dir can read them. For several servers run this again with --blobs s3://bucket/prefix.`
      : '',
    added > 0
      ? `Models were added with 'models add' (${added}). They are files in ${config.dataDir}/catalog and upstreams: copy both folders to the data_dir of each server.`
      : '',
    'Set store to the new address before the server starts again. Without it the server would go on with the old database, which is unchanged.',
  ].filter((note) => note !== '');
}

/** The lock names the process. */
const whileRunning = (message: string): string =>
  message.includes('is running on the data directory')
    ? `${message.slice(0, message.indexOf(' Stop it first'))} Stop it (Ctrl-C, systemctl stop, or kill with its process id) and run migrate again.`
    : message;

export const migrateCommand: Command = {
  forms: [['--to postgres://user@host/database [options]', 'copy a data directory, then compare both']],
  options: [
    ['--data-dir DIR', 'what to copy; its server must be stopped'],
    ['--to ADDRESS', 'an empty database; default: the setting store'],
    ['--to-file FILE', 'a file with the address, so that other users of this machine cannot see its password'],
    ['--blobs s3://BUCKET/PREFIX', 'also copy the bytes of files; without it they stay in the data directory'],
    ['--blobs-endpoint URL', 'of an S3 server other than AWS'],
    ['--json', 'print JSON'],
  ],
  notes: ['The data directory is not changed. Run the command again after an interruption.'],
  async run(context) {
    const { config, env, print } = context;
    const { url, json } = await choose(context);
    if (!hasOwnStore(config))
      throw new CommandFailed(`there is no store in ${config.dataDir}; --data-dir names another`);
    const view = createShareView(process.stderr, systemClock);
    const summary = await transferTo(url, {
      config,
      env,
      onCopied: (what, done, of) => view.update(`copying ${what}`, of === 0 ? null : done / of, [`${done} of ${of}`]),
    }).catch((error: unknown) => {
      if (error instanceof TransferError) throw new CommandFailed(error.message);
      if (error instanceof StoreUnavailableError) throw new CommandFailed(whileRunning(error.message));
      throw error;
    });
    view.finish('done');
    if (json) {
      print(JSON.stringify(summary, null, 2));
    } else {
      const { rows, finishedAt, blobs } = summary;
      if (finishedAt !== undefined) print(`The rows were copied on ${new Date(finishedAt).toISOString()} already.`);
      if (rows !== undefined) print(`${tablesText(rows)}\n`);
      if (rows !== undefined && rows.accounts.length > 0) print(`${accountsText(rows)}\n`);
      if (blobs !== undefined) print(`${blobsText(blobs)}\n`);
      for (const note of await notesOf(summary, context)) print(note);
    }
    if (!summary.equal) {
      throw new CommandFailed(
        'the copy is not equal to the data directory, which has changed since the copy began. Create the database anew and run migrate again',
      );
    }
  },
};
