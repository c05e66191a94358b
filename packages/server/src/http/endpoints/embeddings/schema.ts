import { Type } from 'typebox';
import { label, optional, shortText, text, tokenIds } from '../../body/bounded.ts';
import { truncationFields } from '../../body/truncation.ts';
import type { UnkeptFields } from '../../body/unkept.ts';

const words = text({ minLength: 1 });
/** The service refuses more, with the code for too many inputs. */
const many = { minItems: 1, documented: { maxItems: 2048 } };
const part = Type.Union([
  words,
  Type.Object({ text: words }, { additionalProperties: false }),
  Type.Object(
    { image: text({ minLength: 1, description: 'A data URL, or the id of a file with purpose `vision`' }) },
    { additionalProperties: false },
  ),
]);

export const EmbeddingRequest = Type.Object({
  model: shortText({ minLength: 1, description: 'Slug of an embedding model, with an optional pin' }),
  input: Type.Union([words, Type.Array(part, many), tokenIds, Type.Array(tokenIds, many)], {
    description: 'Up to 2048 texts, arrays of token ids, or on models with `vision` also images',
  }),
  dimensions: optional(Type.Integer({ minimum: 1 }), 'Shortens the vectors, on models that allow it'),
  encoding_format: optional(
    Type.Enum(['float', 'base64'], { default: 'float' }),
    'Vectors as numbers, or as base64 of little-endian float32',
  ),
  ...truncationFields,
  user: optional(label(), 'Taken and ignored'),
});

/** Of the APIs of Cohere, Voyage, Jina, Mistral, vLLM, TEI, llama-server and infinity. Vectors always have unit length. */
export const UNKEPT_IN_EMBEDDINGS: UnkeptFields = {
  add_special_tokens: [true],
  embd_normalize: [2],
  embed_dtype: ['float32'],
  embedding_type: ['float'],
  embedding_types: ['float'],
  endianness: ['little', 'native'],
  input_type: [],
  instruction: [],
  late_chunking: [false],
  messages: [],
  modality: ['text'],
  normalize: [true],
  normalized: [true],
  output_dimension: { instead: 'dimensions' },
  output_dtype: ['float'],
  prompt_name: [],
  return_multivector: [false],
  task: [],
  use_activation: [true],
};

export const EmbeddingResponse = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(
    Type.Object({
      object: Type.Literal('embedding'),
      index: Type.Integer(),
      embedding: Type.Union([
        Type.Array(Type.Number()),
        Type.String({ description: 'base64 of little-endian float32' }),
      ]),
    }),
  ),
  model: Type.String(),
  usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
});
