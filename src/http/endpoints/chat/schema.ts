import { type Static, Type } from 'typebox';
import { optional } from '../../body/optional.ts';

const TextPart = Type.Object({ type: Type.Literal('text'), text: Type.String() });
const OtherPart = Type.Object({ type: Type.Enum(['image_url', 'input_audio', 'file', 'refusal']) });
const Content = Type.Union([Type.String(), Type.Array(Type.Union([TextPart, OtherPart]))]);

const ToolCall = Type.Object({
  id: Type.String(),
  type: Type.Optional(Type.Literal('function')),
  function: Type.Object({ name: Type.String({ minLength: 1 }), arguments: Type.String() }),
});

const Message = Type.Object({
  role: Type.Enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: optional(Content, 'A text, or parts of type text'),
  name: optional(Type.String(), 'Who speaks'),
  tool_calls: optional(Type.Array(ToolCall), 'Of an assistant: the calls that it made'),
  tool_call_id: optional(Type.String(), 'Of a tool: the call that this is the result of'),
});

const JsonSchema = Type.Record(Type.String(), Type.Unknown());

const Tool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String({ pattern: '^[a-zA-Z0-9_-]{1,64}$' }),
    description: optional(Type.String(), 'What it does, for the model'),
    parameters: optional(JsonSchema, 'JSON schema of the arguments'),
    strict: optional(Type.Boolean(), 'Arguments always fit on models that run here'),
  }),
});

const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object'), schema: optional(JsonSchema) }),
  Type.Object({
    type: Type.Literal('json_schema'),
    json_schema: Type.Object({
      name: optional(Type.String()),
      description: optional(Type.String()),
      schema: optional(JsonSchema),
      strict: optional(Type.Boolean()),
    }),
  }),
]);

const sampling = {
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 }), '0 takes the likeliest token every time'),
  top_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    'Draw from the likeliest tokens with this probability together',
  ),
  n: optional(Type.Integer({ minimum: 1, maximum: 8 }), 'Choices; each one is billed'),
  seed: optional(Type.Integer(), 'The same request with the same seed gives the same text, on models that run here'),
  stop: optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { maxItems: 16 })]),
    'Texts before which the answer ends',
  ),
  frequency_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    'Makes tokens less likely the more often they have come',
  ),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 }), 'Makes tokens less likely that have come'),
  logit_bias: optional(Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 })), 'Token id to bias'),
  stream: optional(Type.Boolean(), 'Answer with server-sent events, the last one `[DONE]`'),
  stream_options: optional(
    Type.Object({ include_usage: optional(Type.Boolean(), 'One more event with the usage, before the end') }),
    'With `stream`',
  ),
  user: optional(Type.String(), 'Taken and ignored'),
};

export const ChatCompletionRequest = Type.Object({
  model: Type.String({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  messages: Type.Array(Message, { minItems: 1, description: 'The conversation so far' }),
  ...sampling,
  max_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer; older name of `max_completion_tokens`'),
  max_completion_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer'),
  logprobs: optional(Type.Boolean(), 'Tell the log probability of each token'),
  top_logprobs: optional(
    Type.Integer({ minimum: 0, maximum: 20 }),
    'So many likely tokens at each place, with `logprobs`',
  ),
  response_format: optional(ResponseFormat, 'Text, any JSON object, or JSON that fits a schema'),
  tools: optional(Type.Array(Tool, { maxItems: 128 }), 'Functions that the model may call'),
  tool_choice: optional(
    Type.Union([
      Type.Enum(['none', 'auto', 'required']),
      Type.Object({ type: Type.Literal('function'), function: Type.Object({ name: Type.String() }) }),
    ]),
    'No call, as the model likes, at least one, or this function',
  ),
  parallel_tool_calls: optional(Type.Boolean(), 'False: at most one call in an answer'),
  modalities: optional(Type.Array(Type.Enum(['text', 'audio'])), '`audio` is not supported'),
  audio: optional(Type.Object({}), 'Not supported'),
  functions: optional(Type.Array(Type.Unknown()), "Not supported: use 'tools'"),
  web_search_options: optional(Type.Object({}), 'Not supported'),
});

const tokenIds = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });

export const CompletionRequest = Type.Object({
  model: Type.String({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  prompt: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 }), tokenIds], {
    description: 'One prompt: a text, a list of one text, or token ids',
  }),
  ...sampling,
  max_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer; 16 by default'),
  logprobs: optional(
    Type.Integer({ minimum: 0, maximum: 5 }),
    'Log probabilities, with so many likely tokens at each place',
  ),
  echo: optional(Type.Boolean(), 'Not supported'),
  suffix: optional(Type.String(), 'Not supported'),
  best_of: optional(Type.Integer({ minimum: 1 }), 'Not supported above `n`'),
});

export type ChatCompletionBody = Static<typeof ChatCompletionRequest>;
export type CompletionBody = Static<typeof CompletionRequest>;
export type MessageBody = Static<typeof Message>;

const Usage = Type.Object({
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  cache_read_tokens: Type.Integer(),
  prompt_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
});

const nullableText = Type.Union([Type.String(), Type.Null()]);

export const ChatCompletionResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal('chat.completion'),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      message: Type.Object({
        role: Type.Literal('assistant'),
        content: nullableText,
        refusal: nullableText,
        tool_calls: Type.Optional(Type.Array(ToolCall)),
      }),
      logprobs: Type.Union([Type.Unknown(), Type.Null()]),
      finish_reason: Type.Enum(['stop', 'length', 'tool_calls']),
    }),
  ),
  usage: Usage,
});

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
    }),
  ),
  usage: Usage,
});
