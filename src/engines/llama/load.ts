import { randomInt, randomUUID } from 'node:crypto';
import path from 'node:path';
import { getLlama, type Llama, LlamaLogLevel, type LlamaModel } from 'node-llama-cpp';
import type { EngineTask } from '../../domain/model.ts';
import { errors } from '../../errors/errors.ts';
import type { LoadSpec } from '../driver.ts';
import type { EngineModel } from '../engine.ts';
import { createChatCapability } from './chat.ts';
import { SEEDS } from './decoding/sampling.ts';
import type { LlamaOptions } from './driver.ts';
import { createEmbeddingCapability } from './embedding.ts';
import { createRerankCapability } from './rerank.ts';

/** Loads a GGUF model. Runs in an engine process. */
export async function load(spec: LoadSpec<LlamaOptions>): Promise<EngineModel> {
  const { task, options } = spec.engine;
  const llama = await getLlama({
    gpu: 'auto',
    build: 'never',
    // 0: a context keeps the number of threads it was given, which a reproducible result depends on.
    maxThreads: 0,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  try {
    const model = await llama.loadModel({ modelPath: path.join(spec.directory, options.model) });
    return {
      ...(await capability(task, model, spec)),
      countTokens: async (text) => model.tokenize(text, false).length,
      [Symbol.asyncDispose]: () => release(llama, model),
    };
  } catch (cause) {
    await llama.dispose();
    throw errors.modelUnavailable(spec.slug, 'its weights could not be loaded', cause);
  }
}

async function capability(
  task: EngineTask,
  model: LlamaModel,
  spec: LoadSpec,
): Promise<Pick<EngineModel, 'chat' | 'embedding' | 'rerank'>> {
  switch (task) {
    case 'embedding':
      return { embedding: await createEmbeddingCapability(model, spec) };
    case 'cross-encoder':
      return { rerank: await createRerankCapability(model, spec) };
    case 'chat':
      return {
        chat: await createChatCapability({
          model,
          spec,
          randomSeed: () => randomInt(SEEDS),
          newCallId: () => `call_${randomUUID().replaceAll('-', '')}`,
        }),
      };
    default:
      throw new Error(`the llama driver has no task '${task}'`);
  }
}

async function release(llama: Llama, model: LlamaModel): Promise<void> {
  await model.dispose();
  await llama.dispose();
}
