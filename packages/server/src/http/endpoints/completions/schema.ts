import { type Static, Type } from 'typebox';
import { optional, shortText, text, tokenIds } from '../../body/bounded.ts';
import { constraintFields } from '../../generation/constraint.ts';
import { STREAM_OPTIONS_RULE, StoppedBy, samplingFields, TokenIds, Usage } from '../../generation/schema.ts';

/** Prompts of one request. */
export const MAX_PROMPTS = 256;

const completionFields = {
  model: shortText({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  prompt: Type.Union(
    [
      text(),
      Type.Array(text(), { minItems: 1, documented: { maxItems: MAX_PROMPTS } }),
      tokenIds,
      Type.Array(tokenIds, { minItems: 1, documented: { maxItems: MAX_PROMPTS } }),
    ],
    {
      description: `A text or token ids, or a list of up to ${MAX_PROMPTS} of them, which get choices one after the other`,
    },
  ),
  ...samplingFields,
  ...constraintFields,
  max_tokens: optional(Type.Integer({ minimum: 0 }), 'Longest answer; 16 by default'),
  logprobs: optional(
    Type.Integer({ minimum: 0, maximum: 5 }),
    'Log probabilities, with so many likely tokens at each place',
  ),
  echo: optional(Type.Boolean(), 'Begin with the prompt, with its log probabilities if `logprobs` is set'),
  add_special_tokens: optional(Type.Boolean(), 'False is not supported'),
  suffix: optional(text(), 'Not supported'),
  best_of: optional(Type.Integer({ minimum: 1 }), 'Not supported above `n`'),
};

export const CompletionRequest = Type.Object(completionFields, { documented: STREAM_OPTIONS_RULE });

export type CompletionBody = Static<typeof CompletionRequest>;

export const CompletionResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal('text_completion'),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      text: Type.String(),
      logprobs: Type.Union([Type.Unknown(), Type.Null()]),
      finish_reason: Type.Enum(['stop', 'length']),
      stopped_by: StoppedBy,
      prompt_token_ids: TokenIds,
      token_ids: TokenIds,
    }),
  ),
  usage: Usage,
});
