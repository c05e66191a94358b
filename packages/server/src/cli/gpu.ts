import { openAccelerators } from '../compose/accelerators.ts';
import { nothing, readAction, withOptions } from './actions.ts';
import { type Command, CommandFailed, UsageError } from './command.ts';
import { parseOptions } from './options.ts';
import { formatBytes } from './progress.ts';

const BACKENDS = ['cuda', 'vulkan', 'metal'];
const DEFAULT_BACKEND = process.platform === 'darwin' ? 'metal' : 'cuda';

export const gpuCommand: Command = {
  forms: [
    ['build [--backend cuda|vulkan|metal]', 'build llama.cpp for the GPUs of this machine, then test it'],
    ['test', 'decode with every installed backend; models use the first that works'],
  ],
  async run({ args, config, env, print, warn = print }) {
    const { values, positionals } = parseOptions(args, { backend: { type: 'string' } });
    const { action } = readAction('gpu', { build: nothing, test: withOptions(nothing) }, { values, positionals });
    const { backend = DEFAULT_BACKEND } = values;
    if (!BACKENDS.includes(backend)) {
      throw new UsageError(`--backend must be one of ${BACKENDS.join(', ')}, not '${backend}'`);
    }
    const accelerators = await openAccelerators(config, env, warn);
    if (action === 'build') {
      try {
        await accelerators.build(backend);
      } catch (error) {
        throw new CommandFailed((error as Error).message);
      }
    }
    const tested = await accelerators.test();
    for (const result of tested) {
      if (result.works) {
        const { names, memoryBytes } = result.accelerator;
        print(`${result.backend} works: ${names.join(', ')}, ${formatBytes(memoryBytes)}`);
      } else {
        print(`${result.backend} fails: ${result.reason}\n  ${result.remedy}`);
      }
    }
    if (!tested.some(({ works }) => works)) {
      throw new CommandFailed('no GPU backend works on this machine, so models run on the processor');
    }
    print('Restart a running server to use it.');
  },
};
