import { Type } from 'typebox';
import { optional, shortText, text, tokenIds } from '../../body/bounded.ts';
import { chatPromptFields } from '../chat/schema.ts';

const model = shortText({ minLength: 1, description: 'Slug of any model, with an optional pin' });

/** As vLLM has it. */
export const TokenizeRequest = Type.Object(
  {
    model,
    prompt: optional(text(), 'A text'),
    ...chatPromptFields,
    add_special_tokens: optional(
      Type.Boolean(),
      'With the tokens that the model puts around a text; true by default. The template of a chat has them itself',
    ),
    return_token_strs: optional(Type.Boolean(), 'Not supported'),
  },
  {
    documented: {
      anyOf: [
        { required: ['prompt'], properties: { prompt: { not: { type: 'null' } } } },
        { required: ['messages'], properties: { messages: { not: { type: 'null' } } } },
      ],
    },
  },
);

export const TokenizeResponse = Type.Object({
  count: Type.Integer(),
  max_model_len: Type.Integer({ description: 'The context of the model' }),
  tokens: Type.Array(Type.Integer()),
  token_strs: Type.Null(),
});

export const DetokenizeRequest = Type.Object({
  model,
  tokens: { ...tokenIds, description: 'Ids of tokens, such as those that `/v1/tokenize` tells' },
});
export const DetokenizeResponse = Type.Object({ prompt: Type.String() });
