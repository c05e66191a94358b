import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { EngineModel } from '@baobab/core/engine/engine.ts';
import { createCrossEncoder } from './cross-encoder.ts';
import type { OnnxOptions } from './driver.ts';
import { createEmbedding } from './embedding.ts';
import { type Encoder, loadEncoder } from './encoder.ts';
import { createLateInteraction } from './late-interaction.ts';

const TOKEN_VECTORS = ['last_hidden_state', 'token_embeddings'];
/** Output of a CLIP model: projected into the space of its images. */
const TEXT_VECTORS = ['text_embeds'];

export async function load(spec: LoadSpec<OnnxOptions>): Promise<EngineModel> {
  const { task } = spec.engine;
  switch (task) {
    case 'embedding': {
      const { imageModel } = spec.engine.options;
      if (imageModel !== undefined) return loadPair(spec, imageModel);
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

/** A text encoder and an image encoder with vectors in one space. */
async function loadPair(spec: LoadSpec<OnnxOptions>, imageModel: string): Promise<EngineModel> {
  const encoder = await loadEncoder(spec, TEXT_VECTORS, { exactOutput: true });
  const images = await (await import('./image/image-encoder.ts')).loadImageEncoder(spec, imageModel);
  return {
    ...common(encoder),
    embedding: createEmbedding(encoder, images),
    images: true,
    async [Symbol.asyncDispose]() {
      await Promise.all([encoder.session, images].map((part) => part[Symbol.asyncDispose]()));
    },
  };
}

function common({ session, tokenizer }: Encoder) {
  return {
    countTokens: async (text: string) => tokenizer.encode(text, tokenizer.template.single).length,
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}
