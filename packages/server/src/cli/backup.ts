import { resolve } from 'node:path';
import { usdText } from '@baobab/core/domain/money.ts';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { BackupError, type BackupSummary, backUp, restore } from '../compose/administration.ts';
import { hasStore } from '../compose/storage.ts';
import { type Command, type CommandContext, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import { createShareView, formatBytes } from './progress.ts';

const OWN_STORE_ONLY =
  'the store is PostgreSQL; back it up with its own tools (pg_dump, or a snapshot of the server), and the blobs with those of their store';

function folderOf({ args }: CommandContext): string {
  const { positionals } = parseOptions(args, {});
  const [folder, ...others] = positionals;
  if (folder === undefined || others.length > 0) throw new UsageError('name one folder');
  return resolve(folder);
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Shows how many files are copied, and turns what the user can repair into a message. */
async function withProgress(
  label: string,
  work: (onFile: (copied: number, bytes: number) => void) => Promise<BackupSummary>,
): Promise<BackupSummary> {
  const view = createShareView(process.stderr, systemClock);
  try {
    const summary = await work((copied, bytes) =>
      view.update(label, null, [counted(copied, 'file'), formatBytes(bytes)]),
    );
    view.finish(`${label}: done`);
    return summary;
  } catch (error) {
    const known = error instanceof BackupError || error instanceof StoreUnavailableError;
    throw known ? new CommandFailed(error.message) : error;
  }
}

const summaryText = ({ files, bytes, ledger }: BackupSummary): string =>
  `${counted(files, 'file')}, ${formatBytes(bytes)}, ${counted(ledger.rows, 'ledger row')} of $${usdText(BigInt(ledger.costNanoUsd))}`;

export const backupCommand: Command = {
  forms: [['<folder>', 'copy the data directory into a new folder, also while a server runs; weights are left out']],
  async run(context) {
    const { config, print, warn } = context;
    const folder = folderOf(context);
    if (config.store !== undefined) throw new CommandFailed(OWN_STORE_ONLY);
    if (!hasStore(config)) throw new CommandFailed(`there is no store in ${config.dataDir}; --data-dir names another`);
    const summary = await withProgress('copying', (onFile) => backUp(config, folder, onFile));
    if (config.blobs !== undefined) {
      warn?.(
        'note: the contents of files are not in this backup, because blobs are kept elsewhere; back them up there',
      );
    }
    print(`backed up ${config.dataDir} to ${folder}: ${summaryText(summary)}`);
  },
};

export const restoreCommand: Command = {
  forms: [['<folder> [--data-dir DIR]', 'fill an empty data directory from a backup, and check it']],
  async run(context) {
    const { config, print } = context;
    const folder = folderOf(context);
    if (config.store !== undefined) throw new CommandFailed(OWN_STORE_ONLY);
    const summary = await withProgress('restoring', (onFile) => restore(config, folder, onFile));
    print(`restored ${config.dataDir} from the backup of ${summary.createdAt}: ${summaryText(summary)}`);
    print('Keys that were revoked after the backup are valid again: revoke them before clients can reach the server.');
  },
};
