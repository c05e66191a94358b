import { systemCode, systemReason } from '@baobab/core/runtime/system-reason.ts';
import { openAccelerators, programFolder } from '../compose/accelerators.ts';
import { one, readAction, withOptions } from './actions.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';

const PROGRAMS = ['llama-server'];
const BACKENDS = ['cpu', 'cuda', 'vulkan', 'metal'];
const DEFAULT_BACKEND = process.platform === 'darwin' ? 'metal' : 'cpu';

export const enginesCommand: Command = {
  forms: [
    [
      'build llama-server [--backend NAME]',
      'build a program for catalog entries with the driver command; minutes of many cores',
    ],
  ],
  options: [['--backend NAME', `${BACKENDS.join(', ')} (${DEFAULT_BACKEND})`]],
  async run({ args, config, env, print, warn = print }) {
    const { values, positionals } = parseOptions(args, { backend: { type: 'string' } });
    const actions = { build: withOptions(one('a program'), 'backend') };
    const { following } = readAction('engines', actions, { values, positionals });
    const [program = ''] = following;
    if (!PROGRAMS.includes(program)) throw new UsageError(`only ${PROGRAMS.join(', ')} can be built, not '${program}'`);
    const { backend = DEFAULT_BACKEND } = values;
    if (!BACKENDS.includes(backend)) {
      throw new UsageError(`--backend must be one of ${BACKENDS.join(', ')}, not '${backend}'`);
    }
    const accelerators = await openAccelerators(config, env, warn);
    const folder = programFolder(config);
    try {
      print(`Built ${await accelerators.buildServer(backend, folder)}`);
    } catch (error) {
      if (systemCode(error) === undefined) throw new CommandFailed((error as Error).message);
      throw new CommandFailed(`cannot build in ${folder}: ${systemReason(error)}. Use another place: --data-dir`);
    }
  },
};
