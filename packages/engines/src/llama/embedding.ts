import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { EmbeddingCapability, EmbeddingRequest, TextInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { LlamaEmbeddingContext, LlamaModel, Token } from 'node-llama-cpp';
import { createThreadGovernor } from './decoding/thread-governor.ts';
import { createTokenizerSlice } from './text/prompt-tokenizer.ts';

/** GGUF embedding models. One input at a time: llama.cpp gains nothing from batches of such inputs on a CPU. */
export async function createEmbeddingCapability(model: LlamaModel, spec: LoadSpec): Promise<EmbeddingCapability> {
  const context = await model.createEmbeddingContext({
    contextSize: spec.contextLength,
    // An encoder reads its whole input at once, so a batch must hold the longest one.
    batchSize: spec.contextLength,
    threads: spec.threads,
  });
  const governor = createThreadGovernor(spec.threads);
  return {
    async embed({ inputs, dimensions = model.embeddingVectorSize }: EmbeddingRequest<TextInput>, { signal }) {
      const slice = createTokenizerSlice(signal);
      const tokens: number[] = [];
      for (const [index, input] of inputs.entries()) {
        tokens.push(inputLength(context, input, index, spec.contextLength));
        if (slice.isOver()) await slice.next();
      }
      const vectors = new Float32Array(inputs.length * dimensions);
      for (const [index, input] of inputs.entries()) {
        if (signal.aborted) throw errors.clientCancelled();
        model.llama.maxThreads = governor.threads();
        const { vector } = await context.getEmbeddingFor(asInput(input));
        vectors.set(unitVector(vector, dimensions), index * dimensions);
      }
      return { vectors, dimensions, tokens };
    },
  };
}

const asInput = (input: string | readonly number[]) => (typeof input === 'string' ? input : ([...input] as Token[]));

function inputLength(
  context: LlamaEmbeddingContext,
  input: string | readonly number[],
  index: number,
  limit: number,
): number {
  const tokens = context.calculateInputLength(asInput(input));
  if (tokens > limit) throw errors.contextTooLong(['inputs', index], tokens, limit);
  return tokens;
}

/** The leading dimensions, of unit length. */
function unitVector(vector: readonly number[], dimensions: number): Float32Array {
  const cut = Float32Array.from(vector.slice(0, dimensions));
  const length = Math.hypot(...cut);
  return length === 0 ? cut : cut.map((value) => value / length);
}
