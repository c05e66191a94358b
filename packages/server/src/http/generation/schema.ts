import { type Static, Type } from 'typebox';
import { label, listOf, optional } from '../body/bounded.ts';

/** Fields that chat and completions share. */
export const samplingFields = {
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 }), '0 always takes the likeliest token'),
  top_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    'Sample from the likeliest tokens whose probabilities add up to this',
  ),
  n: optional(Type.Integer({ minimum: 1, maximum: 8 }), 'Number of choices; each one is billed'),
  seed: optional(Type.Integer(), 'The same request with the same seed gives the same text, on models that run here'),
  stop: optional(
    Type.Union([label({ minLength: 1 }), listOf(label({ minLength: 1 }), { maxItems: 16 })]),
    'Texts before which the answer ends',
  ),
  frequency_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    'Makes tokens less likely the more often they occurred',
  ),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 }), 'Makes tokens less likely that occurred before'),
  logit_bias: optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }), {
      documented: { maxProperties: 65_536, propertyNames: { pattern: '^[0-9]{1,9}$' } },
    }),
    'Token id to bias',
  ),
  stream: optional(Type.Boolean(), 'Answer with server-sent events, the last one `[DONE]`'),
  stream_options: optional(
    Type.Object({
      include_usage: optional(Type.Boolean(), 'Send one more event with the usage before the end'),
      continuous_usage_stats: optional(Type.Boolean(), 'Send the usage so far with every event'),
    }),
    'With `stream`',
  ),
  top_k: optional(Type.Integer({ minimum: -1 }), 'Sample from the so many likeliest tokens; 0 and -1: from all'),
  min_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    'Sample from tokens with at least this share of the probability of the likeliest one',
  ),
  repetition_penalty: optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 10 }),
    'Above 1: makes tokens less likely that occurred before',
  ),
  min_tokens: optional(Type.Integer({ minimum: 0 }), 'The answer has at least so many tokens'),
  ignore_eos: optional(
    Type.Boolean(),
    'The model does not end the answer: only the longest answer and stop sequences do',
  ),
  return_token_ids: optional(Type.Boolean(), 'Tell the ids of the tokens of prompt and answer'),
  chat_template_kwargs: optional(
    Type.Object({ enable_thinking: optional(Type.Boolean()), thinking: optional(Type.Boolean()) }),
    '`enable_thinking` and `thinking`: whether a reasoning model thinks; others are refused',
  ),
  user: optional(label(), 'Accepted and ignored'),
};

/** A rule between fields, in the words of a schema. */
export const STREAM_OPTIONS_RULE = {
  anyOf: [
    { properties: { stream_options: { const: null } } },
    { required: ['stream'], properties: { stream: { const: true } } },
  ],
};

export const TokenIds = Type.Optional(Type.Array(Type.Integer(), { description: 'With `return_token_ids`' }));

const sampling = Type.Object(samplingFields);
/** What a sampler needs of a body. */
export type SamplingBody = Static<typeof sampling> & {
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
};

export const StoppedBy = Type.Optional(
  Type.Enum(['budget'], { description: 'Set if the budget was used up before the answer ended' }),
);

export const Usage = Type.Object({
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  cache_read_tokens: Type.Integer(),
  prompt_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
});
