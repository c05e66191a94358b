import { type Administration, hasStore, openAdministration } from '../compose/administration.ts';
import type { ResolvedConfig } from '../config/load.ts';
import { runningServers } from '../control/running-servers.ts';
import { type CommandContext, CommandFailed } from './command.ts';

/** Mentions a server of this user on another data directory, when none runs on this one. */
async function serverElsewhere({ dataDir }: ResolvedConfig): Promise<string> {
  const running = await runningServers();
  if (running.length === 0 || running.includes(dataDir)) return '';
  return `a server is running on ${running.join(' and on ')}; --data-dir ${running[0]} shows that one`;
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
