import type { ResolvedConfig } from '../config/load.ts';

export interface CommandContext {
  /** Arguments after the command's name that are no settings. */
  args: string[];
  config: ResolvedConfig;
  configFile: string | undefined;
  /** Where a setting was made, for messages. */
  locate(path: readonly string[]): string;
  env: Readonly<Record<string, string | undefined>>;
  print(text: string): void;
}

export interface Command {
  /** What may stand after `baobab <name>`, each with more lines where one would be too long. */
  usage: readonly string[];
  run(context: CommandContext): Promise<void>;
}

/** Wrong use of a command: shown with its usage, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** An option that there is not, or a value that it does not take: shown with where to read about them, exit code 2. */
export class OptionError extends Error {
  override readonly name = 'OptionError';
}

/** The command understood, but could not do it: shown as it is, exit code 1. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}
