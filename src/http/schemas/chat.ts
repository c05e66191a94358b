import { type Static, Type } from 'typebox';
import { optional } from './optional.ts';

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
  content: optional(Content),
  name: optional(Type.String()),
  tool_calls: optional(Type.Array(ToolCall)),
  tool_call_id: optional(Type.String()),
});

const JsonSchema = Type.Record(Type.String(), Type.Unknown());

const Tool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String({ pattern: '^[a-zA-Z0-9_-]{1,64}$' }),
    description: optional(Type.String()),
    parameters: optional(JsonSchema),
    strict: optional(Type.Boolean()),
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
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  n: optional(Type.Integer({ minimum: 1, maximum: 8 })),
  seed: optional(Type.Integer()),
  stop: optional(
    Type.Union([Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { maxItems: 16 })]),
  ),
  frequency_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 })),
  logit_bias: optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 }), { description: 'Token id to bias' }),
  ),
  stream: optional(Type.Boolean()),
  stream_options: optional(Type.Object({ include_usage: optional(Type.Boolean()) })),
  user: optional(Type.String()),
};

export const ChatCompletionRequest = Type.Object({
  model: Type.String({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  messages: Type.Array(Message, { minItems: 1 }),
  ...sampling,
  max_tokens: optional(Type.Integer({ minimum: 1 })),
  max_completion_tokens: optional(Type.Integer({ minimum: 1 })),
  logprobs: optional(Type.Boolean()),
  top_logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
  response_format: optional(ResponseFormat),
  tools: optional(Type.Array(Tool, { maxItems: 128 })),
  tool_choice: optional(
    Type.Union([
      Type.Enum(['none', 'auto', 'required']),
      Type.Object({ type: Type.Literal('function'), function: Type.Object({ name: Type.String() }) }),
    ]),
  ),
  parallel_tool_calls: optional(Type.Boolean()),
  modalities: optional(Type.Array(Type.Enum(['text', 'audio']))),
  audio: optional(Type.Object({}, { description: 'Not supported' })),
  functions: optional(Type.Array(Type.Unknown(), { description: "Not supported: use 'tools'" })),
  web_search_options: optional(Type.Object({}, { description: 'Not supported' })),
});

const tokenIds = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });

export const CompletionRequest = Type.Object({
  model: Type.String({ minLength: 1 }),
  prompt: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 }), tokenIds], {
    description: 'One prompt: a text, a list of one text, or token ids',
  }),
  ...sampling,
  max_tokens: optional(Type.Integer({ minimum: 1 })),
  logprobs: optional(Type.Integer({ minimum: 0, maximum: 5 })),
  echo: optional(Type.Boolean()),
  suffix: optional(Type.String()),
  best_of: optional(Type.Integer({ minimum: 1 })),
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
