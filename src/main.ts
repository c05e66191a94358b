import { enableCompileCache } from 'node:module';
import { CatalogError } from './catalog/load.ts';
import { CommandFailed, UsageError } from './cli/command.ts';
import { COMMANDS } from './cli/index.ts';
import { ConfigError, loadConfig } from './config/load.ts';
import { ApiError } from './errors/api-error.ts';
import { StoreUnavailableError } from './ports/store-errors.ts';

enableCompileCache();

function help(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length));
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `usage: baobab <command> [options]\n\n${lines.join('\n')}\n\n'baobab <command> --help' tells more; every setting is a flag too ('baobab config --settings').`;
}

async function main(argv: readonly string[]): Promise<number> {
  const [name, ...args] = argv;
  const print = (text: string) => process.stdout.write(`${text}\n`);
  const complain = (text: string) => process.stderr.write(`${text}\n`);
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    print(help());
    return name === undefined ? 2 : 0;
  }
  const command = COMMANDS[name];
  if (command === undefined) {
    complain(`baobab: there is no command '${name}'\n\n${help()}`);
    return 2;
  }
  const usage = `usage:\n${command.usage.map((line) => `  baobab ${name} ${line}`).join('\n')}`;
  if (args.includes('--help') || args.includes('-h')) {
    print(`${command.summary}\n\n${usage}`);
    return 0;
  }
  try {
    const { config, rest, file } = loadConfig({ args, env: process.env, workingDirectory: process.cwd() });
    await command.run({ args: rest, config, configFile: file, env: process.env, print });
    return 0;
  } catch (error) {
    if (error instanceof UsageError) complain(`baobab ${name}: ${error.message}\n\n${usage}`);
    else if (error instanceof ConfigError) complain(`The configuration is not valid:\n${error.message}`);
    else if (error instanceof CatalogError) complain(`The catalog is not valid:\n${error.message}`);
    else if (error instanceof ApiError || error instanceof StoreUnavailableError || error instanceof CommandFailed)
      complain(`baobab: ${error.message}`);
    else throw error;
    return error instanceof UsageError ? 2 : 1;
  }
}

const code = await main(process.argv.slice(2));
// A start that failed half-way leaves timers and threads behind, which would keep the process alive.
if (code === 0) process.exitCode = 0;
else process.exit(code);
