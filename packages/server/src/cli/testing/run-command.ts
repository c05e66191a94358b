import { loadConfig } from '../../config/load.ts';
import type { Command } from '../command.ts';
import type { Terminal } from '../terminal.ts';

export interface CommandRun {
  args: readonly string[];
  dataDir: string;
  env?: Record<string, string>;
  terminal?: Terminal;
  stdin?: NodeJS.ReadableStream;
  workingDirectory?: string;
}

/** Runs a command in this process. */
export async function runCommand(
  command: Command,
  { args, dataDir, env = {}, terminal, stdin, workingDirectory = '/' }: CommandRun,
): Promise<{ printed: string; warned: string }> {
  const environment = { ...env, BAOBAB_DATA_DIR: dataDir };
  const { config, rest, locate } = loadConfig({ args: [...args], env: environment, workingDirectory });
  const printed: string[] = [];
  let begun = '';
  const warned: string[] = [];
  await command.run({
    args: rest,
    config,
    configFile: undefined,
    locate,
    env: environment,
    print(text) {
      printed.push(begun + text);
      begun = '';
    },
    write(text) {
      begun += text;
    },
    warn: (text) => warned.push(text),
    terminal,
    stdin,
  });
  return { printed: [...printed, ...(begun === '' ? [] : [begun])].join('\n'), warned: warned.join('\n') };
}
