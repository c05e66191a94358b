import { type Administration, hasStore, openAdministration } from '../compose/administration.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { runningServers } from '../control/running-servers.ts';
import { type CommandContext, CommandFailed } from './command.ts';

/** The only one is named. Several would make a long line, and any of them may be meant. */
export const elsewhereText = ([first, ...others]: readonly string[]): string => {
  if (first === undefined) return '';
  if (others.length > 0)
    return `${others.length + 1} servers are running on other directories; choose one with --data-dir`;
  return `a server is running on ${first}; --data-dir ${first} shows that one`;
};

/** Mentions servers of this user on other data directories, when none runs on this one. */
async function serverElsewhere({ dataDir }: ResolvedConfig): Promise<string> {
  const running = await runningServers();
  return running.includes(dataDir) ? '' : elsewhereText(running);
}

const isChosen = ({ locate }: CommandContext): boolean => locate(['dataDir']) === '--data-dir';

/** Not for a directory that was named on the command line. */
function note(context: CommandContext, elsewhere: string): void {
  if (elsewhere === '' || isChosen(context)) return;
  context.warn?.(`note: this is about ${context.config.dataDir}; ${elsewhere}`);
}

/** Opens the store for a command that changes nothing. Creates no store, because an empty one would hide a wrong directory. */
export async function openForReading(context: CommandContext): Promise<Administration> {
  const { config } = context;
  // With a store elsewhere, the data directory does not decide what a command shows.
  const elsewhere = config.store === undefined ? await serverElsewhere(config) : '';
  if (!hasStore(config)) {
    const hint = elsewhere === '' ? "'baobab serve' creates one, and --data-dir names another directory" : elsewhere;
    throw new CommandFailed(`there is no store in ${config.dataDir}; ${hint}`);
  }
  note(context, elsewhere);
  return openAdministration(config);
}

export async function mentionServerElsewhere(context: CommandContext): Promise<void> {
  note(context, await serverElsewhere(context.config));
}
