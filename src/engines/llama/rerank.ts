import type { LlamaModel } from 'node-llama-cpp';
import { errors } from '../../errors/errors.ts';
import type { LoadSpec } from '../driver.ts';
import type { RerankCapability } from '../engine.ts';

/** GGUF models with a ranking head: query and document are read together. */
export async function createRerankCapability(model: LlamaModel, spec: LoadSpec): Promise<RerankCapability> {
  const context = await model.createRankingContext({
    contextSize: spec.contextLength,
    batchSize: spec.contextLength,
    threads: spec.threads,
  });
  return {
    async rerank({ query, documents }, { signal }) {
      const lengths = documents.map((document) => context.calculateInputLength(query, document));
      const tooLong = lengths.findIndex((length) => length > spec.contextLength);
      if (tooLong !== -1)
        throw errors.contextTooLong(`documents[${tooLong}]`, lengths[tooLong] ?? 0, spec.contextLength);
      const scores = new Float32Array(documents.length);
      for (const [index, document] of documents.entries()) {
        if (signal.aborted) throw errors.clientCancelled();
        scores[index] = await context.rank(query, document);
      }
      return { scores, tokens: lengths.reduce((sum, length) => sum + length, 0) };
    },
  };
}
