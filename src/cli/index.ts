import { accountsCommand } from './accounts.ts';
import type { Command } from './command.ts';
import { configCommand } from './config.ts';
import { keysCommand } from './keys.ts';
import { serveCommand } from './serve.ts';

export const COMMANDS: Readonly<Record<string, Command>> = {
  serve: serveCommand,
  keys: keysCommand,
  accounts: accountsCommand,
  config: configCommand,
};
