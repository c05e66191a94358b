import { randomInt } from 'node:crypto';
import path from 'node:path';
import { getLlama, type Llama, LlamaLogLevel, type LlamaModel } from 'node-llama-cpp';
import { errors } from '../../errors/errors.ts';
import type { LoadSpec } from '../driver.ts';
import type { EngineModel } from '../engine.ts';
import { createChatCapability } from './chat.ts';

/** Loads a GGUF model. Runs inside an engine process of its own. */
export async function load(spec: LoadSpec): Promise<EngineModel> {
  if (spec.engine.driver !== 'llama')
    throw new Error(`The llama driver cannot load a model of driver '${spec.engine.driver}'`);
  const llama = await getLlama({
    gpu: 'auto',
    build: 'never',
    // 0: contexts keep the number of threads they were given, which a reproducible result depends on.
    maxThreads: 0,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  const model = await loadModel(llama, spec, path.join(spec.directory, spec.engine.model));
  const chat = await createChatCapability({
    model,
    spec,
    randomSeed: () => randomInt(2 ** 32 - 1),
  });
  return {
    chat,
    countTokens: async (text) => model.tokenize(text, false).length,
    async [Symbol.asyncDispose]() {
      await model.dispose();
      await llama.dispose();
    },
  };
}

async function loadModel(llama: Llama, spec: LoadSpec, modelPath: string): Promise<LlamaModel> {
  try {
    return await llama.loadModel({ modelPath });
  } catch (cause) {
    throw errors.modelUnavailable(spec.slug, 'its weights could not be loaded', cause);
  }
}
