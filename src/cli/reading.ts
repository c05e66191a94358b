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

/** Opens the store for a command that changes nothing. Creates no store, because an empty one would hide a wrong directory. */
export async function openForReading({ config, warn }: CommandContext): Promise<Administration> {
  // With a store elsewhere, the data directory does not decide what a command shows.
  const elsewhere = config.store === undefined ? await serverElsewhere(config) : '';
  if (!hasStore(config)) {
    const hint = elsewhere === '' ? "'baobab serve' creates one, and --data-dir names another directory" : elsewhere;
    throw new CommandFailed(`there is no store in ${config.dataDir}; ${hint}`);
  }
  if (elsewhere !== '') warn?.(noteOf(config, elsewhere));
  return openAdministration(config);
}

const noteOf = ({ dataDir }: ResolvedConfig, elsewhere: string) => `note: this is about ${dataDir}; ${elsewhere}`;

export async function mentionServerElsewhere({ config, warn }: CommandContext): Promise<void> {
  const elsewhere = await serverElsewhere(config);
  if (elsewhere !== '') warn?.(noteOf(config, elsewhere));
}
