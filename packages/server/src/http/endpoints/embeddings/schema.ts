import { Type } from 'typebox';
import { optional } from '../../body/optional.ts';

const text = Type.String({ minLength: 1 });
const tokens = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });
const part = Type.Union([
  text,
  Type.Object({ text }, { additionalProperties: false }),
  Type.Object(
    { image: Type.String({ minLength: 1, description: 'A data URL, or the id of a file with purpose `vision`' }) },
    { additionalProperties: false },
  ),
]);

export const EmbeddingRequest = Type.Object({
  model: Type.String({ minLength: 1, description: 'Slug of an embedding model, with an optional pin' }),
  input: Type.Union([text, Type.Array(part, { minItems: 1 }), tokens, Type.Array(tokens, { minItems: 1 })], {
    description: 'Up to 2048 texts, arrays of token ids, or on models with `vision` also images',
  }),
  dimensions: optional(Type.Integer({ minimum: 1 }), 'Shortens the vectors, on models that allow it'),
  encoding_format: optional(
    Type.Enum(['float', 'base64'], { default: 'float' }),
    'Vectors as numbers, or as base64 of little-endian float32',
  ),
  user: optional(Type.String(), 'Taken and ignored'),
});

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
