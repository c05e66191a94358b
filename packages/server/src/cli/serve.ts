import { closeSync, openSync } from 'node:fs';
import { isatty } from 'node:tty';
import { nearest } from '@baobab/core/runtime/nearest.ts';
import { type Service, type Serving, StopTimeoutError, startService } from '../compose/service.ts';
import type { Environment } from '../compose/weights.ts';
import { startSupervisor, WorkerStartError } from '../compose/workers/supervisor.ts';
import { linkWorker, type WorkerLink } from '../compose/workers/worker-link.ts';
import { WORKER_VARIABLE } from '../compose/workers/worker-process.ts';
import { CLIENT_KEY_VARIABLE, type ResolvedConfig } from '../config/load.ts';
import { SETTINGS } from '../config/settings.ts';
import { workerCount } from '../config/workers.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';

/** Under `npm start` one Ctrl-C arrives twice: from the terminal and from npm. */
const SAME_KEYSTROKE_MS = 1_000;
const PARENT_CHECK_MS = 500;

const greeting = (secret: string, env: Environment): string => `${env[CLIENT_KEY_VARIABLE] ? MISNAMED_KEY : ''}
Your first API key. It is shown only once, so keep it. Set it in the terminal where you try the examples:

    export BAOBAB_API_KEY=${secret}
`;

const MISNAMED_KEY = `
Note: ${CLIENT_KEY_VARIABLE} is set, but it is the key that clients send. To choose the first key, set BAOBAB_FIRST_KEY before the first start.
`;

const invitation = (address: string): string => `
Try it:

    curl ${address}/v1/embeddings -H "Authorization: Bearer $BAOBAB_API_KEY" \\
      -H "Content-Type: application/json" -d '{"model": "baobab/embed-multilingual", "input": "Habari ya dunia"}'
`;

const pages = (address: string): string => `Console:       ${address}/console (sign in with a key)
API reference: ${address}/docs
`;

const CONFIGURED = ' (first key: as configured)';

/** Why the server cannot listen, for operators. */
function listenProblem(error: unknown, { host, port }: ResolvedConfig): string | undefined {
  const { syscall, code } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `port ${port} of ${host} is in use; choose another one with --port`;
  if (code === 'EACCES' && syscall === 'listen')
    return `this user may not listen on port ${port}; choose one above 1023 with --port`;
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return `${host} is not an address of this machine; choose another one with --host`;
  return undefined;
}

function unknownSetting(flag: string): string {
  const meant = nearest(flag, ['--config', ...SETTINGS.map((setting) => setting.flag)]);
  const hint = meant === undefined ? '' : `did you mean ${meant}? `;
  return `unknown setting '${flag}'; ${hint}'baobab config --settings' lists them`;
}

/** Settings are parsed already, so any other argument is a mistake. */
function refuseArguments([first]: readonly string[]): void {
  if (first === undefined) return;
  throw new UsageError(
    first.startsWith('-')
      ? unknownSetting(first.split('=')[0] ?? first)
      : `'${first}' is not a setting; write settings as --port 8080`,
  );
}

/** The parent process died without passing on a signal (see bin/baobab.mjs). */
function onParentGone(stop: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, PARENT_CHECK_MS);
  timer.unref();
}

/** Resolves on the first SIGINT or SIGTERM. A second one, later than the same keystroke, ends the process at once. */
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

/** Whether the terminal that this process belongs to exists. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

/** SIGHUP makes daemons read files again. A terminal that closes sends it too, and ends what was started in it. */
function onHangUp(reread: () => void, stop: () => void): void {
  const isInTerminal = isatty(0) && hasTerminal();
  process.on('SIGHUP', () => (isInTerminal && !hasTerminal() ? stop() : reread()));
}

/** Set when the supervisor started this process. */
function workerLink(env: Environment): WorkerLink | undefined {
  const number = env[WORKER_VARIABLE];
  if (number === undefined || process.send === undefined) return undefined;
  return linkWorker(Number(number), {
    send: (message) => process.connected && process.send?.(message, undefined, {}, () => {}),
    on: (event, listener) => process.on(event, listener),
  });
}

const supervise = (...given: Parameters<typeof startSupervisor>): Promise<Service> =>
  startSupervisor(...given).catch((error: unknown) => {
    throw error instanceof WorkerStartError ? new CommandFailed(error.message) : error;
  });

export const serveCommand: Command = {
  forms: [['[settings]', 'serve until SIGTERM or Ctrl-C, then let running requests end']],
  options: [
    ['--host HOST', 'where to listen; 0.0.0.0 for every address of this machine. Default: 127.0.0.1'],
    ['--port N', 'default: 8080'],
    ['--data-dir DIR', 'database, files and weights; default: ~/.baobab'],
    ['--config FILE', 'default: baobab.yaml in the working directory, if it is there'],
  ],
  async run({ args, config, locate, env, print }) {
    refuseArguments(args);
    const worker = workerLink(env);
    let service: Service | undefined;
    const hungUp = Promise.withResolvers<void>();
    // While it starts too: the signal would end it.
    onHangUp(
      () => void service?.rereadSecrets(),
      () => (service === undefined ? process.exit(129) : hungUp.resolve()),
    );
    let stop: Promise<void> | undefined;
    const onServing = ({ address: listening, firstKey }: Serving) => {
      const address = config.publicUrl ?? listening;
      // Before the text: its reader may stop the server at once.
      stop = Promise.race([stopSignal(env), hungUp.promise]);
      // A configured key is known already.
      const shownKey = config.firstKey === undefined ? firstKey : undefined;
      if (shownKey !== undefined) print(greeting(shownKey.secret, env));
      // The supervisor prints the address when all workers listen.
      if (worker === undefined) print(`Baobab serves on ${address}${firstKey === shownKey ? '' : CONFIGURED}`);
      if (shownKey !== undefined) print(invitation(address));
      if (worker === undefined) print(pages(address));
    };
    const starting =
      worker === undefined && workerCount(config) > 1
        ? supervise(config, (address) => onServing({ address, firstKey: undefined }))
        : startService(config, { env, onServing, locate, worker });
    service = await starting.catch((error: unknown) => {
      const problem = listenProblem(error, config);
      throw problem === undefined ? error : new CommandFailed(problem);
    });
    await stop;
    await service.close().catch((error: unknown) => {
      if (!(error instanceof StopTimeoutError)) throw error;
      // It has logged why. What hangs would keep the process alive.
      process.exit(1);
    });
    // The channel to the supervisor would keep the process alive.
    if (worker !== undefined) process.disconnect();
  },
};
