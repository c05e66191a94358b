import { startService } from '../compose/service.ts';
import type { Environment } from '../compose/weights.ts';
import type { ResolvedConfig } from '../config/load.ts';
import type { IssuedKey } from '../services/access/keys.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';

/** Ctrl-C reaches a server under `npm start` twice: from the terminal, and passed on by npm. */
const SAME_KEYSTROKE_MS = 1_000;
const PARENT_CHECK_MS = 500;

const greeting = (secret: string): string => `
Your first key, shown this once only:

    ${secret}
`;

const invitation = (address: string, secret: string): string => `
Try it:

    curl ${address}/v1/embeddings -H "Authorization: Bearer ${secret}" \\
      -H "Content-Type: application/json" -d '{"model": "baobab/embed-multilingual", "input": "Habari ya dunia"}'

API reference: ${address}/docs
`;

/** What keeps the machine from listening, in words for its operator. */
function listenProblem(error: unknown, { host, port }: ResolvedConfig): string | undefined {
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `port ${port} of ${host} is taken; choose another one with --port`;
  if (code === 'EACCES' && syscall === 'listen')
    return `this user may not listen on port ${port}; choose one above 1023 with --port`;
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return `${host} is not an address of this machine; choose another one with --host`;
  return undefined;
}

/** Settings are taken out already: what is left is a slip of the pen, and would go unnoticed. */
function refuseArguments([first]: readonly string[]): void {
  if (first === undefined) return;
  throw new UsageError(
    first.startsWith('-')
      ? `there is no setting '${first.split('=')[0]}'; 'baobab config --settings' lists them`
      : `'${first}' is not understood; settings are written as --port 8080`,
  );
}

/** Whoever stands in front of the server (bin/baobab.mjs says so) has ended without a word. */
function onParentGone(stop: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, PARENT_CHECK_MS);
  timer.unref();
}

/** Resolves with the first SIGINT or SIGTERM; a second one, made on purpose, ends the process at once. */
function stopSignal(env: Environment): Promise<void> {
  return new Promise((resolve) => {
    if (env._BAOBAB_ENDS_WITH_PARENT !== undefined) onParentGone(resolve);
    let firstAt: number | undefined;
    const onSignal = () => {
      if (firstAt !== undefined && performance.now() - firstAt > SAME_KEYSTROKE_MS) process.exit(130);
      firstAt ??= performance.now();
      resolve();
    };
    process.on('SIGINT', onSignal);
    process.on('SIGTERM', onSignal);
  });
}

export const serveCommand: Command = {
  usage: ['[--host H] [--port N] [--data-dir DIR] [--config FILE] [any other setting as a flag]'],
  async run({ args, config, locate, env, print }) {
    refuseArguments(args);
    let first: IssuedKey | undefined;
    const onFirstKey = (issued: IssuedKey) => {
      first = issued;
      // A key that came from the environment is known to whoever set it.
      if (config.apiKey === undefined) print(greeting(issued.secret));
    };
    const service = await startService(config, { env, onFirstKey, locate }).catch((error: unknown) => {
      const problem = listenProblem(error, config);
      throw problem === undefined ? error : new CommandFailed(problem);
    });
    const stop = stopSignal(env);
    const { address } = service;
    if (first === undefined) print(`Baobab serves on ${address}`);
    else if (config.apiKey !== undefined) print(`Baobab serves on ${address} (first key: as set in BAOBAB_API_KEY)`);
    else print(`Baobab serves on ${address}\n${invitation(address, first.secret)}`);
    await stop;
    await service.close();
  },
};
