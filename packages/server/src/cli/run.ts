import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { printable } from '@baobab/core/domain/control-characters.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { StorageFullError, StoreUnavailableError } from '@baobab/core/errors/store-unavailable.ts';
import { nearest } from '@baobab/core/runtime/nearest.ts';
import { systemCode, systemReason } from '@baobab/core/runtime/system-reason.ts';
import { CatalogError } from '../catalog/load.ts';
import { ConfigError, loadConfig } from '../config/load.ts';
import { ControlError } from '../control/socket.ts';
import { type Command, CommandFailed, type HelpLine, UsageError } from './command.ts';
import { COMMANDS } from './index.ts';
import { terminalOf } from './terminal.ts';

const HELP_WIDTH = 100;

/** Splits a text between words into lines of at most `width` characters. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Two aligned columns. */
function columns(lines: readonly HelpLine[]): string {
  const width = Math.max(...lines.map(([typed]) => typed.length));
  const indent = `\n${' '.repeat(width + 4)}`;
  return lines
    .map(([typed, does]) => `  ${typed.padEnd(width)}  ${wrapped(does, HELP_WIDTH - width - 4).join(indent)}`.trimEnd())
    .join('\n');
}

const help = (): string =>
  [
    'usage: baobab <command> [options]',
    columns(Object.entries(COMMANDS).map(([name, { summary }]) => [name, summary])),
    "'baobab <command> --help' shows its options, 'baobab --version' the version and its commit.\n" +
      'Every setting is also an option of every command, except secrets, which other users could see:\n' +
      "'baobab config --settings' lists them.",
  ].join('\n\n');

const usageOf = (name: string, { forms }: Command): string =>
  `usage:\n${columns(forms.map(([typed, does]) => [`baobab ${name} ${typed}`.trimEnd(), does]))}`;

/** The form that was meant, if that is clear, and where the others are. */
function usageHint(name: string, { forms }: Command, args: readonly string[]): string {
  const meant = forms.filter(([typed]) => forms.length === 1 || typed.split(' ')[0] === args[0]);
  const help = `'baobab ${name} --help' lists the options`;
  return meant.length === 1 ? `usage: baobab ${name} ${meant[0]?.[0]}; ${help}` : help;
}

const helpOf = (name: string, summary: string, command: Command): string =>
  [
    summary,
    usageOf(name, command),
    ...(command.options === undefined ? [] : [`options:\n${columns(command.options)}`]),
    ...(command.notes ?? []).map((note) => wrapped(note, HELP_WIDTH).join('\n')),
    "Settings are options too, such as --data-dir DIR; 'baobab config --settings' lists them",
  ].join('\n\n');

/** Options by the fields that errors name. */
const OPTION_NAMES: Readonly<Record<string, string>> = {
  start: '--start',
  end: '--end',
  bucket: '--bucket',
  top: '--top',
  groupBy: '--group-by',
  timeZone: '--time-zone',
  name: '<name>',
  weight: '--weight',
  zeroRetention: '--zero-retention',
  storePrompts: '--store-prompts',
  fileRetentionDays: '--file-retention-days',
  aliases: '--aliases',
  dialect: '--dialect',
  truncateInputs: '--truncate-inputs',
  allowedModels: '--models',
  allowedRegions: '--regions',
  allowedAddresses: '--addresses',
  expiresAt: '--expires',
  graceMs: '--grace',
  removalDate: '--on',
};

const withOptionNames = (error: ApiError): ApiError => error.mapFields((path) => OPTION_NAMES[String(path[0])] ?? path);

/** For errors of the system that no command has expected. */
function systemProblem(error: unknown): string | undefined {
  if (systemCode(error) === undefined) return undefined;
  const { path, hostname, address, port } = error as NodeJS.ErrnoException & Record<string, unknown>;
  const reason = systemReason(error);
  if (path !== undefined) return `${path} cannot be used: ${reason}. Check the path, and that this user may use it`;
  const place = hostname ?? address;
  const whole = port === undefined ? place : `${place}:${port}`;
  return place === undefined
    ? `the system refuses it: ${reason}. Check the paths and addresses in the settings: 'baobab config' shows them`
    : `${whole} cannot be reached: ${reason}. Check the address, and that its server is running`;
}

interface Explanation {
  text: string;
  exitCode: number;
}

/** Undefined: the error is a bug of ours. */
function explain(error: unknown, { name, hint }: { name: string; hint: string }): Explanation | undefined {
  if (error instanceof UsageError) return { text: `baobab ${name}: ${error.message}\n${hint}`, exitCode: 2 };
  if (error instanceof ConfigError)
    return {
      text: `The configuration is not valid; 'baobab config --settings' lists the settings:\n${error.message}`,
      exitCode: 1,
    };
  if (error instanceof CatalogError) return { text: `The catalog is not valid:\n${error.message}`, exitCode: 1 };
  if (error instanceof ApiError) return { text: `baobab: ${withOptionNames(error).message}`, exitCode: 1 };
  if (error instanceof StoreUnavailableError || error instanceof CommandFailed || error instanceof ControlError) {
    return { text: `baobab: ${error.message}`, exitCode: 1 };
  }
  const problem = systemProblem(error);
  return problem === undefined ? undefined : { text: `baobab: ${problem}`, exitCode: 1 };
}

/** What a command uses of its process. */
export interface CommandProcess {
  env: Readonly<Record<string, string | undefined>>;
  stdin?: NodeJS.ReadableStream;
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
  cwd(): string;
}

/** A reader such as `head` may close the pipe early. The rest of the output has no use then. */
function endWithReader(stdout: NodeJS.WritableStream): void {
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
}

/** Runs a command and returns the exit code. */
export async function runCommand([name, ...args]: readonly string[], within: CommandProcess): Promise<number> {
  const { env, stdin, stdout, stderr } = within;
  // A server keeps running when its output is closed.
  if (name !== 'serve') endWithReader(stdout);
  const write = (text: string) => void stdout.write(printable(text));
  const print = (text: string) => write(`${text}\n`);
  const printError = (text: string) => stderr.write(`${printable(text)}\n`);
  if (name === 'help' && args[0] !== undefined) return runCommand([args[0], '--help'], within);
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    print(help());
    return name === undefined ? 2 : 0;
  }
  if (name === '--version' || name === '-v') {
    const { COMMIT, VERSION, versionText } = await import('../compose/version.ts');
    print(versionText(VERSION, COMMIT));
    return 0;
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (entry === undefined) {
    const meant = nearest(name, Object.keys(COMMANDS));
    const hint = meant === undefined ? '' : `; did you mean '${meant}'?`;
    printError(`baobab: unknown command '${name}'${hint}\n'baobab help' lists the commands`);
    return 2;
  }
  const command = await entry.load();
  const ownArgs = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  if (ownArgs.includes('--help') || ownArgs.includes('-h')) {
    print(helpOf(name, entry.summary, command));
    return 0;
  }
  let dataDir: string | undefined;
  try {
    const { config, rest, file, locate } = loadConfig({
      args,
      commandFlags: command.commandFlags ?? [],
      env,
      workingDirectory: within.cwd(),
    });
    dataDir = config.dataDir;
    const context = { args: rest, config, configFile: file, locate, env, print, write, warn: printError };
    let exitCode = 0;
    const exitWith = (code: number) => {
      exitCode = code;
    };
    await command.run({ ...context, stdin, terminal: terminalOf(within), exitWith });
    return exitCode;
  } catch (error) {
    const advice = dataDir === undefined ? undefined : await fullDiskAdvice(error, dataDir);
    if (advice !== undefined) {
      printError(`baobab: ${advice}`);
      return 1;
    }
    const explained = explain(error, { name, hint: usageHint(name, command, args) });
    if (explained === undefined) throw error;
    printError(explained.text);
    return explained.exitCode;
  }
}

const FULL_CODES: readonly unknown[] = ['ENOSPC', 'EDQUOT'];
/** SQLite's primary result codes: SQLITE_FULL, and SQLITE_IOERR, which has other reasons too. */
const SQLITE_CODES: readonly number[] = [13, 10];
const FULL_BYTES = 1_048_576;
/** The journal of the ledger, the reserve, and some room to work with. */
const NEEDED_MB = 32;

const causesOf = (error: unknown): Error[] => (error instanceof Error ? [error, ...causesOf(error.cause)] : []);

const saysFull = (error: Error): boolean => FULL_CODES.includes((error as NodeJS.ErrnoException).code);

/** The disk that is full may also be that of PostgreSQL. */
const mayMeanFull = (error: Error): boolean =>
  error instanceof StorageFullError ||
  ('errcode' in error && typeof error.errcode === 'number' && SQLITE_CODES.includes(error.errcode & 0xff));

/** Free space on the disk of a directory, which may not exist yet. Undefined where the system does not say. */
async function freeBytesOf(directory: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    return dirname(directory) === directory ? undefined : freeBytesOf(dirname(directory));
  }
}

/** What an operator can do about a command that failed because the disk is full. Undefined: that is not the reason. */
export async function fullDiskAdvice(error: unknown, dataDir: string): Promise<string | undefined> {
  const causes = causesOf(error);
  const isCertain = causes.some(saysFull);
  if (!isCertain && !causes.some(mayMeanFull)) return undefined;
  const freeBytes = await freeBytesOf(dataDir);
  if (!isCertain && (freeBytes ?? FULL_BYTES) >= FULL_BYTES) return undefined;
  const free = freeBytes === undefined ? '' : `, which has ${Math.floor(freeBytes / 1024)} kB free`;
  return (
    `There is no space left on the disk of the data directory ${dataDir}${free}.\n` +
    `What is stored is safe. Free at least ${NEEDED_MB} MB on that disk, or move the directory to a larger one and name it with ` +
    '--data-dir. Then start again.'
  );
}
