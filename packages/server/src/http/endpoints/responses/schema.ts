import { RESPONSE_STATUSES } from '@baobab/core/domain/response.ts';
import { type Static, Type } from 'typebox';
import {
  anyMembers,
  label,
  listOf,
  text as longText,
  Metadata,
  optional,
  pathText,
  shortText,
} from '../../body/bounded.ts';
import { StoppedBy } from '../../generation/schema.ts';

/** A part of a message or of a tool's output. Which fields it needs depends on its type; see `input.ts`. */
const ContentPart = Type.Object({
  type: shortText({ description: '`input_text`, `input_image`, `input_file`, `output_text` or `refusal`' }),
  text: optional(longText()),
  refusal: optional(longText()),
  image_url: optional(longText(), 'A data URL'),
  file_id: optional(shortText(), 'A PDF or text uploaded with purpose `user_data`, or an image with `vision`'),
  detail: optional(label()),
  filename: optional(label()),
  file_data: optional(longText(), 'A data URL of a PDF, a text or an image'),
  file_url: optional(longText(), 'Not supported'),
});

const Content = Type.Union([longText(), listOf(ContentPart)]);

/** Items of any type in one schema: clients send back items of other servers too, which are skipped. See `input.ts`. */
export const InputItem = Type.Object({
  type: optional(
    shortText(),
    '`message` by default, `reasoning`, `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output`, `compaction` or `item_reference`; others are skipped',
  ),
  // A part of the key of an item in its conversation, which PostgreSQL bounds.
  id: optional(Type.String({ maxLength: 512 })),
  role: optional(Type.Enum(['user', 'assistant', 'system', 'developer'])),
  content: optional(Content),
  status: optional(label()),
  call_id: optional(label(), 'Links a call to its output'),
  name: optional(label(), 'Of a call: its tool'),
  arguments: optional(longText(), 'Of a `function_call`: JSON'),
  input: optional(longText(), 'Of a `custom_tool_call`: free text'),
  output: optional(Type.Union([Content, Type.Object({})]), 'What a tool returned'),
  summary: optional(listOf(Type.Object({ text: longText() })), 'Of a `reasoning` item'),
  encrypted_content: optional(longText(), 'Of a `reasoning` or `compaction` item'),
});

const JsonSchema = anyMembers();

const Tool = Type.Object({
  type: shortText({ description: '`function` or `custom`; tools of other types are ignored' }),
  name: optional(label()),
  description: optional(longText()),
  parameters: optional(JsonSchema, 'Of a function: JSON schema of its arguments'),
  strict: optional(Type.Boolean()),
  format: optional(
    Type.Object({
      type: shortText(),
      syntax: optional(label()),
      definition: optional(longText()),
    }),
    'Of a custom tool: free text, or a grammar that is added to the prompt',
  ),
});

const ToolChoice = Type.Union([
  Type.Enum(['none', 'auto', 'required']),
  Type.Object({
    type: shortText(),
    name: optional(label()),
    mode: optional(Type.Enum(['auto', 'required'])),
    tools: optional(listOf(Type.Object({ type: shortText(), name: optional(label()) }), { maxItems: 512 })),
  }),
]);

const TextFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({
    type: Type.Literal('json_schema'),
    name: label(),
    description: optional(longText()),
    schema: JsonSchema,
    strict: optional(Type.Boolean()),
  }),
]);

/** What the prompt is made of. */
const promptFields = {
  model: shortText({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  input: optional(Type.Union([longText(), listOf(InputItem)]), 'A text, or items'),
  instructions: optional(longText(), 'A system message before everything else'),
  tools: optional(Type.Array(Tool, { maxItems: 512 }), 'Tools that the model may call'),
  tool_choice: optional(ToolChoice, 'No call, as the model likes, at least one, this tool, or one of these'),
  parallel_tool_calls: optional(Type.Boolean(), 'False: at most one call in an answer'),
  text: optional(
    Type.Object({ format: optional(TextFormat), verbosity: optional(Type.Enum(['low', 'medium', 'high'])) }),
    'Text, any JSON object, or JSON that fits a schema',
  ),
  reasoning: optional(
    Type.Object({
      effort: optional(Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])),
      summary: optional(Type.Enum(['auto', 'concise', 'detailed'])),
    }),
    'How much a reasoning model should think',
  ),
  truncation: optional(Type.Enum(['auto', 'disabled']), '`auto`: leave out the oldest turns that do not fit'),
};

const text = { type: 'string', minLength: 1 };
/** A request continues a response or a conversation, not both. */
const continuesOne = {
  not: {
    required: ['previous_response_id', 'conversation'],
    properties: {
      previous_response_id: text,
      conversation: { anyOf: [text, { type: 'object', properties: { id: text } }] },
    },
  },
};

const createFields = {
  ...promptFields,
  include: optional(
    listOf(shortText(), { maxItems: 100 }),
    '`reasoning.encrypted_content` and `message.output_text.logprobs`; others are ignored',
  ),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 }), '0 always takes the likeliest token'),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 }), 'Sample from the likeliest tokens'),
  presence_penalty: optional(Type.Number({ minimum: -2, maximum: 2 }), 'Makes tokens less likely that occurred before'),
  frequency_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    'Makes tokens less likely the more often they occurred',
  ),
  top_logprobs: optional(
    Type.Integer({ minimum: 0, maximum: 20 }),
    'Number of most likely tokens to return at each position',
  ),
  max_output_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer, reasoning included'),
  max_tool_calls: optional(Type.Integer({ minimum: 1 }), 'Of hosted tools, which there are none of'),
  metadata: optional(Metadata, 'Up to 16 texts of your own'),
  stream: optional(Type.Boolean(), 'Answer with server-sent events'),
  stream_options: optional(Type.Object({}), 'Accepted and ignored'),
  store: optional(Type.Boolean(), 'Keep the response so that it can be retrieved and continued; true by default'),
  background: optional(Type.Boolean(), 'Answer at once and run the response in the background; needs `store`'),
  previous_response_id: optional(shortText(), 'Continue this stored response'),
  conversation: optional(
    Type.Union([shortText(), Type.Object({ id: shortText() })]),
    'Continue this conversation and add to it',
  ),
  prompt: optional(Type.Object({}), 'Not supported'),
  prompt_cache_key: optional(label(), 'Accepted and ignored: prefixes are cached for each account'),
  prompt_cache_retention: optional(shortText(), 'Accepted and ignored'),
  safety_identifier: optional(label(), 'Accepted and ignored'),
  service_tier: optional(shortText(), 'Accepted and ignored'),
  user: optional(label(), 'Accepted and ignored'),
};

export const CreateResponse = Type.Object(createFields, { documented: continuesOne });

export const InputTokensRequest = Type.Object(
  {
    ...promptFields,
    previous_response_id: optional(shortText(), 'Continue this stored response'),
    conversation: optional(Type.Union([shortText(), Type.Object({ id: shortText() })]), 'Continue this conversation'),
  },
  { documented: continuesOne },
);

export const CompactRequest = Type.Object({
  model: promptFields.model,
  input: promptFields.input,
  instructions: promptFields.instructions,
  previous_response_id: optional(shortText(), 'Compact this stored response and those that it continues'),
  prompt_cache_key: optional(label(), 'Accepted and ignored'),
});

export const InputTokens = Type.Object({
  object: Type.Literal('response.input_tokens'),
  input_tokens: Type.Integer(),
});

export const ResponseParams = Type.Object({
  response_id: pathText({ description: 'Id of the response, `resp_…`' }),
});

export const ResponseQuery = Type.Object({
  stream: Type.Optional(Type.Boolean({ description: 'Stream it; one in the background is followed to its end' })),
  starting_after: Type.Optional(Type.Integer({ minimum: 0, description: 'Only events after this sequence number' })),
});

export const ItemQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20, description: 'Items in one answer' })),
  order: Type.Optional(Type.Enum(['asc', 'desc'], { default: 'desc', description: 'Oldest or newest first' })),
  after: Type.Optional(shortText({ description: 'Id of the last item seen' })),
});

export const ItemList = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(Type.Unknown()),
  first_id: Type.String(),
  last_id: Type.String(),
  has_more: Type.Boolean(),
});

export const DeletedResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal('response'),
  deleted: Type.Literal(true),
});

export type CreateResponseBody = Static<typeof CreateResponse>;
export type InputItemBody = Static<typeof InputItem>;
export type ContentBody = Static<typeof Content>;
export type ToolBody = Static<typeof Tool>;

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);

const ResponseUsage = Type.Object({
  input_tokens: Type.Integer(),
  input_tokens_details: Type.Object({ cached_tokens: Type.Integer(), cache_write_tokens: Type.Integer() }),
  output_tokens: Type.Integer(),
  output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
  total_tokens: Type.Integer(),
});

export const CompactedResponse = Type.Object({
  id: Type.String(),
  object: Type.Literal('response.compaction'),
  created_at: Type.Integer({ description: 'Unix time in seconds' }),
  output: Type.Array(Type.Unknown(), {
    description:
      'The messages of the user, and an item of type `compaction`. Send them as the `input` of the next request',
  }),
  usage: ResponseUsage,
});

/** The fields that programs read most. Every field of the request is there too, with its default where it was not sent. */
export const ResponseObject = Type.Object({
  id: Type.String(),
  object: Type.Literal('response'),
  created_at: Type.Integer({ description: 'Unix time in seconds' }),
  completed_at: nullable(Type.Integer()),
  status: Type.Enum([...RESPONSE_STATUSES]),
  error: nullable(Type.Object({ code: Type.String(), message: Type.String() })),
  incomplete_details: nullable(Type.Object({ reason: Type.String() })),
  stopped_by: StoppedBy,
  model: Type.String(),
  output: Type.Array(Type.Unknown(), {
    description: 'Items of type `reasoning`, `message`, `function_call` and `custom_tool_call`',
  }),
  usage: nullable(ResponseUsage),
});
