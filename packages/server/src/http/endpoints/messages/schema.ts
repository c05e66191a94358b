import { type Static, Type } from 'typebox';
import { commonErrors, inferenceErrors } from '../../answer/error-answer.ts';
import { anyMembers, label, listOf, optional, shortText, text } from '../../body/bounded.ts';
import { StoppedBy } from '../../generation/schema.ts';

const Source = Type.Object({
  type: shortText({ description: '`base64`, `text`, `url` or `file`' }),
  media_type: optional(shortText()),
  data: optional(text()),
  url: optional(text()),
  file_id: optional(shortText(), 'An image uploaded with purpose `vision`, or a PDF or text with `user_data`'),
  content: optional(Type.Unknown()),
});

/** Blocks of any type in one schema: which fields one needs depends on its type; see `request.ts`. */
const blockFields = {
  type: shortText({ description: '`text`, `image`, `document`, `tool_use`, `tool_result` or `thinking`' }),
  text: optional(text()),
  source: optional(Source, 'Of an image or document'),
  title: optional(label()),
  thinking: optional(text()),
  id: optional(label(), 'Of a `tool_use`'),
  name: optional(label(), 'Of a `tool_use`'),
  input: optional(Type.Unknown(), 'Of a `tool_use`'),
  tool_use_id: optional(label(), 'Of a `tool_result`'),
};
export const InnerBlock = Type.Object(blockFields);
const Block = Type.Object({
  ...blockFields,
  content: optional(Type.Union([text(), listOf(InnerBlock), Type.Unknown()]), 'Of a `tool_result`'),
});

const Message = Type.Object({
  role: Type.Enum(['user', 'assistant', 'system']),
  content: Type.Union([text(), listOf(Block)]),
});

const JsonSchema = anyMembers();

const Tool = Type.Object({
  type: optional(shortText(), '`custom` by default; tools that the server would run are ignored'),
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: optional(text()),
  input_schema: optional(JsonSchema, 'JSON schema of the input'),
  strict: optional(Type.Boolean(), 'Inputs always fit on models that run here'),
});

const namedWithTool = {
  anyOf: [
    { properties: { type: { enum: ['auto', 'any', 'none'] } } },
    {
      properties: { type: { const: 'tool' }, name: { type: 'string', minLength: 1, maxLength: 65_536 } },
      required: ['name'],
    },
  ],
};

const promptFields = {
  model: shortText({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  messages: listOf(Message, {
    minItems: 1,
    description: 'The conversation so far. The answer continues a last message of the assistant',
  }),
  system: optional(
    Type.Union([text(), listOf(Type.Object({ type: Type.Literal('text'), text: text() }))]),
    'Instructions',
  ),
  tools: optional(Type.Array(Tool, { maxItems: 512 }), 'Tools that the model may use'),
  tool_choice: optional(
    Type.Object(
      {
        type: Type.Enum(['auto', 'any', 'tool', 'none']),
        name: optional(label(), 'With type `tool`: one of the tools'),
        disable_parallel_tool_use: optional(Type.Boolean()),
      },
      { documented: namedWithTool },
    ),
    'As the model likes, at least one tool, this tool, or none',
  ),
  thinking: optional(
    Type.Object({ type: Type.Enum(['enabled', 'adaptive', 'disabled']), budget_tokens: optional(Type.Integer()) }),
    'Show what a reasoning model thinks; the budget is ignored',
  ),
  output_config: optional(
    Type.Object({ format: optional(Type.Object({ type: shortText(), schema: optional(JsonSchema) })) }),
    'Hold the answer to a JSON schema',
  ),
};

export const CountTokensRequest = Type.Object(promptFields);
export const TokenCount = Type.Object({ input_tokens: Type.Integer() });

export const CreateMessage = Type.Object({
  ...promptFields,
  max_tokens: Type.Integer({ minimum: 1, description: 'Longest answer. More than the model can give is lowered' }),
  stop_sequences: optional(listOf(label({ minLength: 1 }), { maxItems: 16 }), 'Texts before which the answer ends'),
  stream: optional(Type.Boolean(), 'Answer with server-sent events'),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 }), '0 always takes the likeliest token'),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 }), 'Sample from the likeliest tokens'),
  top_k: optional(Type.Integer({ minimum: 0 }), 'Sample from the so many likeliest tokens'),
  metadata: optional(Type.Object({}), 'Accepted and ignored'),
});

export type CreateMessageBody = Static<typeof CreateMessage>;
export type CountTokensBody = Static<typeof CountTokensRequest>;
export type MessageBody = Static<typeof Message>;
export type BlockBody = Static<typeof Block>;

export const MessageObject = Type.Object({
  id: Type.String(),
  type: Type.Literal('message'),
  role: Type.Literal('assistant'),
  model: Type.String(),
  content: Type.Array(Type.Unknown(), { description: 'Blocks of type `thinking`, `text` and `tool_use`' }),
  stop_reason: Type.Union([Type.Enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use']), Type.Null()]),
  stop_sequence: Type.Union([Type.String(), Type.Null()]),
  stopped_by: StoppedBy,
  usage: Type.Object({
    input_tokens: Type.Integer(),
    output_tokens: Type.Integer(),
    cache_creation_input_tokens: Type.Integer(),
    cache_read_input_tokens: Type.Integer(),
  }),
});

const MessagesError = Type.Object(
  {
    type: Type.Literal('error'),
    error: Type.Object({ type: Type.String(), message: Type.String() }),
    request_id: Type.String(),
  },
  { description: 'The shape of every error of the Messages API' },
);

const inThisShape = <Statuses extends object>(errors: Statuses) =>
  Object.fromEntries(Object.keys(errors).map((status) => [status, MessagesError])) as Record<
    keyof Statuses,
    typeof MessagesError
  >;

export const commonMessageErrors = inThisShape(commonErrors);
export const messageErrors = inThisShape(inferenceErrors);
