import type { LoadSpec } from '../driver.ts';
import type { EngineModel } from '../engine.ts';
import { createCrossEncoder } from './cross-encoder.ts';
import type { OnnxOptions } from './driver.ts';
import { createEmbedding } from './embedding.ts';
import { type Encoder, loadEncoder } from './encoder.ts';
import { createLateInteraction } from './late-interaction.ts';

const TOKEN_VECTORS = ['last_hidden_state', 'token_embeddings'];

export async function load(spec: LoadSpec<OnnxOptions>): Promise<EngineModel> {
  const { task } = spec.engine;
  switch (task) {
    case 'embedding': {
      const encoder = await loadEncoder(spec, TOKEN_VECTORS);
      return { ...common(encoder), embedding: createEmbedding(encoder) };
    }
    case 'late-interaction': {
      const encoder = await loadEncoder(spec, TOKEN_VECTORS);
      return { ...common(encoder), rerank: createLateInteraction(encoder) };
    }
    case 'cross-encoder': {
      const encoder = await loadEncoder(spec, ['logits']);
      const { batcher, tokenizer } = encoder;
      const { encode, template } = tokenizer;
      const rerank = createCrossEncoder({
        contextLength: spec.contextLength,
        template: template.pair,
        encode,
        batcher,
      });
      return { ...common(encoder), rerank };
    }
    case 'transcription':
      return (await import('./whisper/load.ts')).load(spec);
    default:
      throw new Error(`the onnx driver has no task '${task}'`);
  }
}

function common({ session, tokenizer }: Encoder) {
  return {
    countTokens: async (text: string) => tokenizer.encode(text, tokenizer.template.single).length,
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}
