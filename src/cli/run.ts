import { CatalogError } from '../catalog/load.ts';
import { ConfigError, loadConfig } from '../config/load.ts';
import { printable } from '../domain/control-characters.ts';
import { ApiError } from '../errors/api-error.ts';
import { StoreUnavailableError } from '../errors/store-unavailable.ts';
import { type Command, CommandFailed, OptionError, UsageError } from './command.ts';
import { COMMANDS } from './index.ts';

function help(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `usage: baobab <command> [options]\n\n${lines.join('\n')}\n\n'baobab <command> --help' shows its options. Every setting is also a flag ('baobab config --settings').`;
}

function usageOf(name: string, { usage }: Command): string {
  const start = `  baobab ${name} `;
  return `usage:\n${usage.map((each) => start + each.replaceAll('\n', `\n${' '.repeat(start.length)}`)).join('\n')}`;
}

/** Options by the fields that errors name. */
const OPTION_NAMES: Readonly<Record<string, string>> = {
  start: '--start',
  end: '--end',
  bucket: '--bucket',
  groupBy: '--group-by',
  name: '--name',
  allowedModels: '--models',
  allowedRegions: '--regions',
  allowedAddresses: '--addresses',
  expiresAt: '--expires',
  graceMs: '--grace',
  removalDate: '--on',
};

const withOptionNames = (error: ApiError): ApiError => error.mapFields((path) => OPTION_NAMES[String(path[0])] ?? path);

function explain(name: string, error: unknown, usage: string): { text: string; exitCode: number } | undefined {
  if (error instanceof UsageError) return { text: `baobab ${name}: ${error.message}\n\n${usage}`, exitCode: 2 };
  if (error instanceof OptionError) {
    return { text: `baobab ${name}: ${error.message}\n'baobab ${name} --help' lists the options`, exitCode: 2 };
  }
  if (error instanceof ConfigError) return { text: `The configuration is not valid:\n${error.message}`, exitCode: 1 };
  if (error instanceof CatalogError) return { text: `The catalog is not valid:\n${error.message}`, exitCode: 1 };
  if (error instanceof ApiError) return { text: `baobab: ${withOptionNames(error).message}`, exitCode: 1 };
  if (error instanceof StoreUnavailableError || error instanceof CommandFailed) {
    return { text: `baobab: ${error.message}`, exitCode: 1 };
  }
  return undefined;
}

/** A reader such as `head` may close the pipe early. The rest of the output has no use then. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
}

/** Runs a command and returns the exit code. */
export async function runCommand(
  [name, ...args]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<number> {
  // A server goes on without anyone who reads its output.
  if (name !== 'serve') endWithReader();
  const print = (text: string) => process.stdout.write(`${printable(text)}\n`);
  const printError = (text: string) => process.stderr.write(`${printable(text)}\n`);
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    print(help());
    return name === undefined ? 2 : 0;
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (entry === undefined) {
    printError(`baobab: unknown command '${name}'\n\n${help()}`);
    return 2;
  }
  const command = await entry.load();
  const usage = usageOf(name, command);
  if (args.includes('--help') || args.includes('-h')) {
    print(`${entry.summary}\n\n${usage}`);
    return 0;
  }
  try {
    const { config, rest, file, locate } = loadConfig({ args, env, workingDirectory: process.cwd() });
    await command.run({ args: rest, config, configFile: file, locate, env, print, warn: printError });
    return 0;
  } catch (error) {
    const explained = explain(name, error, usage);
    if (explained === undefined) throw error;
    printError(explained.text);
    return explained.exitCode;
  }
}
