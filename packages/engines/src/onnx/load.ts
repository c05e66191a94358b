import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type {
  EmbeddingCapability,
  EmbeddingInput,
  EngineModel,
  ImageInput,
  TextInput,
} from '@baobab/core/engine/engine.ts';
import { cutBetween, tokenLimit } from '@baobab/core/engine/truncation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import { createCrossEncoder } from './cross-encoder.ts';
import type { OnnxOptions } from './driver.ts';
import { type Encoder, joined, loadEncoder, mapInSlices } from './encoder.ts';
import type { ImageEncoder } from './image/image-encoder.ts';
import { createLateInteraction } from './late-interaction.ts';
import { pool, unitVector } from './pooling.ts';

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
    tokenizer: {
      encode: async (text: string, special: boolean) => [
        ...tokenizer.encode(text, special ? tokenizer.template.single : undefined),
      ],
      async decode(ids: readonly number[]) {
        checkIds(ids, ['tokens'], tokenizer.vocabularySize);
        return tokenizer.decode(ids);
      },
    },
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}

const isImage = (input: EmbeddingInput): input is ImageInput => typeof input === 'object' && 'url' in input;

/** The server sends images only to models with an encoder for them. */
function createEmbedding({ spec, tokenizer, batcher }: Encoder, imageEncoder?: ImageEncoder): EmbeddingCapability {
  const { single } = tokenizer.template;
  const { inputPrefix: prefix = '', pooling = 'mean' } = spec.engine.options;

  const idsOf = (input: TextInput, index: number): Int32Array => {
    if (typeof input !== 'string') checkIds(input, ['inputs', index], tokenizer.vocabularySize);
    return typeof input === 'string' ? tokenizer.encode(prefix + input, single) : joined(input);
  };

  /** The tokens around the client's text. Those of ids are special only if the client has put them there. */
  const aroundOf = (input: TextInput, ids: Int32Array): { first: number; last: number } => {
    const [first, last] = [single.before.length, single.after.length];
    if (typeof input === 'string') return { first: first + tokenizer.encode(prefix).length, last };
    const isMarked =
      single.before.every((id, at) => ids[at] === id) &&
      single.after.every((id, at) => ids[ids.length - last + at] === id);
    return isMarked ? { first, last } : { first: 0, last: 0 };
  };

  return {
    async embed({ inputs, dimensions = spec.dimensions ?? 0, truncation }, context) {
      const { signal } = context;
      const limit = tokenLimit(truncation ?? { side: 'end' }, spec.contextLength);
      let truncated = 0;
      const texts: { input: TextInput; index: number }[] = [];
      const images: { input: ImageInput; index: number }[] = [];
      inputs.forEach((input, index) => {
        if (isImage(input)) images.push({ input, index });
        else texts.push({ input, index });
      });
      const sequences = await mapInSlices(texts, signal, ({ input, index }) => {
        const ids = idsOf(input, index);
        if (ids.length <= limit) return { ids };
        if (truncation === undefined) throw errors.contextTooLong(['inputs', index], ids.length, limit);
        truncated += 1;
        return { ids: cutBetween(ids, limit, { side: truncation.side, ...aroundOf(input, ids) }) };
      });
      const vectors = new Float32Array(inputs.length * dimensions);
      const placeOf = (index: number) => vectors.subarray(index * dimensions, (index + 1) * dimensions);
      const indexOf = (at: number) => texts[at]?.index ?? 0;
      const failure = new AbortController();
      const own = images.length === 0 ? context : { ...context, signal: AbortSignal.any([signal, failure.signal]) };
      try {
        await Promise.all([
          batcher.submit({
            sequences,
            context: own,
            onRow: (at, row) => pool(row, pooling, placeOf(indexOf(at))),
          }),
          imageEncoder?.embed(
            images.map(({ input: { url }, index }) => ({ url, field: ['inputs', index, 'image'] })),
            {
              context: own,
              onVector: (at, vector) => unitVector(vector, placeOf(images[at]?.index ?? 0)),
            },
          ),
        ]);
      } catch (error) {
        // Stop the other half: a failed request returns no vectors.
        failure.abort();
        throw error;
      }
      const tokens: number[] = new Array(inputs.length);
      for (const { input, index } of images) tokens[index] = input.tokens;
      sequences.forEach(({ ids }, at) => {
        tokens[indexOf(at)] = ids.length;
      });
      return { vectors, dimensions, tokens, truncated };
    },
  };
}

function checkIds(ids: readonly number[], field: FieldPath, vocabularySize: number): void {
  const wrong = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabularySize);
  if (wrong === undefined) return;
  throw errors.invalidParameter(
    field,
    fieldText`${field} holds ${wrong}, which is not a token of this model. Token ids are whole numbers from 0 to ${vocabularySize - 1}.`,
  );
}
