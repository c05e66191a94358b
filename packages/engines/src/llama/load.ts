import { randomInt, randomUUID } from 'node:crypto';
import path from 'node:path';
import type { EngineTask } from '@baobab/core/domain/model.ts';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { ComputeDevice, EngineModel } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { getLlama, type Llama, LlamaLogLevel, type LlamaModel } from 'node-llama-cpp';
import { backendOptions } from './backend/local-builds.ts';
import { createChatCapability } from './chat.ts';
import { SEEDS } from './decoding/sampling.ts';
import type { LlamaOptions } from './driver.ts';
import { createEmbeddingCapability } from './embedding.ts';
import { createRerankCapability } from './rerank.ts';

/** Loads a GGUF model. Runs in an engine process. */
export async function load(spec: LoadSpec<LlamaOptions>): Promise<EngineModel> {
  const { task, options } = spec.engine;
  const llama = await getLlama({
    ...backendOptions(spec.backend),
    // Lowered before each evaluation to what is of use at that moment.
    maxThreads: spec.threads,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
  });
  try {
    const before = await llama.getVramState();
    const model = await llama.loadModel({
      modelPath: path.join(spec.directory, options.model),
      // As many layers as fit beside the contexts; the others stay on the processor.
      gpuLayers: { fitContext: { contextSize: spec.contextLength * spec.parallelSequences } },
    });
    const { close, ...capabilities } = await capability(task, model, spec);
    return {
      ...capabilities,
      device: await deviceOf(llama, model, before.used),
      countTokens: async (text) => model.tokenize(text, false).length,
      async [Symbol.asyncDispose]() {
        await close?.();
        await release(llama, model);
      },
    };
  } catch (error) {
    await llama.dispose();
    // The library's own messages do not mention the file.
    const detail = error instanceof Error ? error.message : String(error);
    const cause = new Error(`${options.model} is damaged, of an unknown kind or too large: ${detail}`, {
      cause: error,
    });
    throw errors.modelUnavailable(spec.slug, 'its weights could not be loaded', cause);
  }
}

async function capability(
  task: EngineTask,
  model: LlamaModel,
  spec: LoadSpec<LlamaOptions>,
): Promise<Pick<EngineModel, 'chat' | 'embedding' | 'rerank'> & { close?: () => Promise<void> }> {
  switch (task) {
    case 'embedding':
      return { embedding: await createEmbeddingCapability(model, spec) };
    case 'cross-encoder':
      return { rerank: await createRerankCapability(model, spec) };
    case 'chat':
      return createChatCapability({
        model,
        spec,
        randomSeed: () => randomInt(SEEDS),
        newCallId: () => `call_${randomUUID().replaceAll('-', '')}`,
      });
    default:
      throw new Error(`the llama driver has no task '${task}'`);
  }
}

/** `usedBefore`: memory of the GPUs that was in use before the model was loaded. */
async function deviceOf(llama: Llama, model: LlamaModel, usedBefore: number): Promise<ComputeDevice> {
  const { used } = await llama.getVramState();
  const { gpuLayers } = model;
  return {
    backend: gpuLayers > 0 && llama.gpu !== false ? llama.gpu : 'cpu',
    names: gpuLayers > 0 ? await llama.getGpuDeviceNames() : [],
    gpuLayers,
    layers: model.fileInsights.totalLayers,
    videoBytes: gpuLayers > 0 ? Math.max(0, used - usedBefore) : 0,
  };
}

async function release(llama: Llama, model: LlamaModel): Promise<void> {
  await model.dispose();
  await llama.dispose();
}
