import { type Static, Type } from 'typebox';
import { patternInWords } from '../../../validation/expectation.ts';
import { anyMembers, label, listOf, optional, shortText, text } from '../../body/bounded.ts';
import { constraintFields } from '../../generation/constraint.ts';
import { STREAM_OPTIONS_RULE, StoppedBy, samplingFields, TokenIds, Usage } from '../../generation/schema.ts';

const TextPart = Type.Object({ type: Type.Literal('text'), text: text() });
const ImagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({
    url: text({ minLength: 1, description: 'A data URL such as data:image/png;base64,…' }),
    detail: optional(Type.Enum(['auto', 'low', 'high']), 'Passed on to the engine'),
  }),
});
const FilePart = Type.Object({
  type: Type.Literal('file'),
  file: Type.Object(
    {
      file_id: optional(shortText(), 'A PDF or text uploaded with purpose `user_data`, or an image with `vision`'),
      file_data: optional(text(), 'A data URL of a PDF, a text or an image'),
      filename: optional(label()),
    },
    {
      documented: {
        anyOf: [
          { required: ['file_data'], properties: { file_data: text({ minLength: 1 }) } },
          { required: ['file_id'], properties: { file_id: shortText({ minLength: 1 }) } },
        ],
      },
    },
  ),
});
const OtherPart = Type.Object({ type: Type.Enum(['input_audio', 'refusal']) });
const Content = Type.Union([text(), listOf(Type.Union([TextPart, ImagePart, FilePart, OtherPart]))]);

const ToolCall = Type.Object({
  id: label(),
  type: Type.Optional(Type.Literal('function')),
  function: Type.Object({ name: label({ minLength: 1 }), arguments: text() }),
});

const given = { not: { type: 'null' } };
/** Which fields a message needs, by its role. */
const byRole = {
  anyOf: [
    { properties: { role: { enum: ['system', 'developer', 'user'] }, content: given }, required: ['content'] },
    { properties: { role: { const: 'assistant' }, content: given }, required: ['content'] },
    {
      properties: { role: { const: 'assistant' }, tool_calls: { type: 'array', minItems: 1, maxItems: 512 } },
      required: ['tool_calls'],
    },
    {
      properties: {
        role: { const: 'tool' },
        content: given,
        tool_call_id: { type: 'string', minLength: 1, maxLength: 65_536 },
      },
      required: ['content', 'tool_call_id'],
    },
  ],
};

const Message = Type.Object(
  {
    role: Type.Enum(['system', 'developer', 'user', 'assistant', 'tool']),
    content: optional(Content, 'A text, or parts: texts, files, and images on models with `vision`'),
    name: optional(label(), 'Who speaks'),
    reasoning_content: optional(text(), 'Of an assistant: what it thought'),
    tool_calls: optional(listOf(ToolCall, { maxItems: 512 }), 'Of an assistant: the calls that it made'),
    tool_call_id: optional(label(), 'Of a tool: the call that this is the result of'),
  },
  { documented: byRole },
);

const JsonSchema = anyMembers();

const Tool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String(
      patternInWords('^[a-zA-Z0-9_-]{1,64}$', 'a name such as get_weather, of at most 64 letters, digits, _ and -'),
    ),
    description: optional(text(), 'What it does, for the model'),
    parameters: optional(JsonSchema, 'JSON schema of the arguments'),
    strict: optional(Type.Boolean(), 'Arguments always fit on models that run here'),
  }),
});

/** Of a chat prompt that is only turned into tokens. */
export const chatPromptFields = {
  messages: optional(listOf(Message, { minItems: 1 }), 'The messages of a chat, instead of a text'),
  tools: optional(Type.Array(Tool, { maxItems: 128 }), 'Functions that the model may call'),
  continue_final_message: optional(Type.Boolean(), 'The answer continues the last message, which is of the assistant'),
  add_generation_prompt: optional(Type.Boolean(), 'False: the prompt ends after the last message'),
};

const chatFields = {
  model: shortText({ minLength: 1, description: 'Slug of a chat model, with an optional pin' }),
  messages: listOf(Message, { minItems: 1, description: 'The conversation so far' }),
  ...samplingFields,
  max_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer; older name of `max_completion_tokens`'),
  max_completion_tokens: optional(Type.Integer({ minimum: 1 }), 'Longest answer'),
  logprobs: optional(Type.Boolean(), 'Tell the log probability of each token'),
  top_logprobs: optional(
    Type.Integer({ minimum: 0, maximum: 20 }),
    'Number of most likely tokens to return at each position, with `logprobs`',
  ),
  ...constraintFields,
  continue_final_message: optional(Type.Boolean(), 'The answer continues the last message, which is of the assistant'),
  add_generation_prompt: optional(Type.Boolean(), 'False: the prompt ends after the last message'),
  tools: optional(Type.Array(Tool, { maxItems: 128 }), 'Functions that the model may call'),
  tool_choice: optional(
    Type.Union([
      Type.Enum(['none', 'auto', 'required']),
      Type.Object({ type: Type.Literal('function'), function: Type.Object({ name: label() }) }),
    ]),
    'No call, as the model likes, at least one, or this function',
  ),
  parallel_tool_calls: optional(Type.Boolean(), 'False: at most one call in an answer'),
  reasoning_effort: optional(
    Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']),
    'How much a reasoning model should think',
  ),
  modalities: optional(listOf(Type.Enum(['text', 'audio']), { maxItems: 16 }), '`audio` is not supported'),
  audio: optional(Type.Object({}), 'Not supported'),
  functions: optional(listOf(Type.Unknown(), { maxItems: 128 }), "Not supported: use 'tools'"),
  web_search_options: optional(Type.Object({}), 'Not supported'),
};

/** Rules between fields that the service checks, in the words of a schema. */
const betweenFields = {
  allOf: [
    {
      anyOf: [
        { properties: { top_logprobs: { enum: [0, null] } } },
        { required: ['logprobs'], properties: { logprobs: { const: true } } },
      ],
    },
    STREAM_OPTIONS_RULE,
    {
      anyOf: [
        { properties: { tool_choice: { enum: ['none', 'auto', null] } } },
        { required: ['tools'], properties: { tools: { type: 'array', minItems: 1, maxItems: 128 } } },
      ],
    },
  ],
};

export const ChatCompletionRequest = Type.Object(chatFields, { documented: betweenFields });

export type ChatCompletionBody = Static<typeof ChatCompletionRequest>;
export type MessageBody = Static<typeof Message>;

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
        reasoning_content: Type.Optional(Type.String({ description: 'What a reasoning model thought' })),
        tool_calls: Type.Optional(Type.Array(ToolCall)),
      }),
      logprobs: Type.Union([Type.Unknown(), Type.Null()]),
      finish_reason: Type.Enum(['stop', 'length', 'tool_calls']),
      stopped_by: StoppedBy,
      token_ids: TokenIds,
    }),
  ),
  prompt_token_ids: TokenIds,
  usage: Usage,
});
