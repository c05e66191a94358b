import type { ResolvedConfig } from '../config/load.ts';
import type { Terminal } from './terminal.ts';

export interface CommandContext {
  /** Arguments after the command's name, without settings. */
  args: string[];
  config: ResolvedConfig;
  configFile: string | undefined;
  /** The file and line, variable or flag of a setting, for messages. */
  locate(path: readonly string[]): string;
  env: Readonly<Record<string, string | undefined>>;
  print(text: string): void;
  /** A part of a line. */
  write?: ((text: string) => void) | undefined;
  /** A remark beside the output, on standard error. */
  warn?: ((text: string) => void) | undefined;
  /** Undefined without a terminal: the command asks nothing. */
  terminal?: Terminal | undefined;
  stdin?: NodeJS.ReadableStream | undefined;
  /** The exit code of a command that has not failed. */
  exitWith?: ((code: number) => void) | undefined;
}

/** Two columns of the help: what to type, and what it does. */
export type HelpLine = readonly [typed: string, does: string];

export interface Command {
  /** Forms of the command, without `baobab <name>`. */
  forms: readonly HelpLine[];
  /** Options besides settings. */
  options?: readonly HelpLine[];
  notes?: readonly string[];
  /** Options that have the name of a setting and mean something else here. */
  commandFlags?: readonly string[];
  run(context: CommandContext): Promise<void>;
}

/** Wrong use of a command: an unknown option, a wrong value, a missing argument. Printed with the form that was meant, exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command failed. Only the message is printed, exit code 1. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}
