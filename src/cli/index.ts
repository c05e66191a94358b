import { accountsCommand } from './accounts.ts';
import { batchesCommand } from './batches.ts';
import type { Command } from './command.ts';
import { configCommand } from './config.ts';
import { keysCommand } from './keys.ts';
import { modelsCommand } from './models.ts';
import { serveCommand } from './serve.ts';
import { usageCommand } from './usage.ts';

export const COMMANDS: Readonly<Record<string, Command>> = {
  serve: serveCommand,
  models: modelsCommand,
  keys: keysCommand,
  accounts: accountsCommand,
  usage: usageCommand,
  batches: batchesCommand,
  config: configCommand,
};
