import { endWithParent } from '@baobab/core/runtime/end-with-parent.ts';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { backendOptions } from './local-builds.ts';
import type { SelfTestResult } from './self-test-run.ts';

/**
 * Entry of a throwaway process: decodes a few tokens of a tiny model with one backend of llama.cpp. Arguments: the backend, the
 * model's path and the process id of the parent. The last line of standard output is the result.
 */

const PROMPT_TOKENS = 40;
const NEW_TOKENS = 2;

async function decode(backend: string, modelPath: string): Promise<SelfTestResult> {
  const llama = await getLlama({
    ...backendOptions(backend),
    progressLogs: false,
    vramPadding: 0,
    logLevel: LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath, gpuLayers: 'max', ignoreMemorySafetyChecks: true });
  const context = await model.createContext({ contextSize: 256, threads: 1, ignoreMemorySafetyChecks: true });
  const prompt = model.tokenize('x'.repeat(PROMPT_TOKENS));
  let tokens = 0;
  for await (const _ of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    if (++tokens === NEW_TOKENS) break;
  }
  const names = await llama.getGpuDeviceNames();
  const { total } = await llama.getVramState();
  return { names, memoryBytes: total };
}

const [, , backend = 'cpu', modelPath = '', parent] = process.argv;
endWithParent(Number(parent));
const result = await decode(backend, modelPath);
process.stdout.write(`\n${JSON.stringify(result)}\n`, () => process.exit(0));
