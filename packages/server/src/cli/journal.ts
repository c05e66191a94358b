import { resolve } from 'node:path';
import { StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { replayJournal } from '../compose/journal.ts';
import { one, readAction } from './actions.ts';
import { type Command, CommandFailed } from './command.ts';
import { parseOptions } from './options.ts';

export const journalCommand: Command = {
  forms: [
    [
      'replay <folder>',
      'move the ledger rows that wait in the data directory of a lost server to PostgreSQL; again does no harm',
    ],
  ],
  async run({ args, config, print, warn = print }) {
    const { values, positionals } = parseOptions(args, {});
    const { following } = readAction('journal', { replay: one('a folder') }, { values, positionals });
    if (config.store === undefined) {
      throw new CommandFailed(
        'no PostgreSQL is configured: name the database of the lost server with BAOBAB_STORE or --store-file. With SQLite, the next start moves the rows by itself',
      );
    }
    const folder = resolve(following[0] as string);
    const log = { warn: (_facts: object, text: string) => warn(`note: ${text}`) };
    try {
      const { rows, added } = await replayJournal(config, folder, log);
      print(
        rows === 0
          ? `no ledger rows wait in ${folder}`
          : `${rows} ledger rows moved from ${folder}, ${added} of them new`,
      );
    } catch (error) {
      throw error instanceof StoreUnavailableError ? new CommandFailed(error.message) : error;
    }
  },
};
