import type { ChatMessage, ChatRequest, OutputFormat, SamplingOptions, ToolChoice } from '../../../engines/engine.ts';
import { errors } from '../../../errors/errors.ts';
import type { ChatCommand } from '../../../services/chat.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import { isLarge, largeBytes } from '../../body/json-slices.ts';
import type { ChatCompletionBody, CompletionBody, MessageBody } from './schema.ts';

/** Wire names to inner names, and the rules that a schema cannot say. */

function textOf(content: MessageBody['content'], path: string): string {
  if (content === null || content === undefined) return '';
  if (typeof content === 'string') return content;
  return content
    .map((part, index) => {
      if (part.type === 'text') return part.text;
      throw errors.unsupportedParameter(
        `${path}[${index}]`,
        `'${path}[${index}]' is of type '${part.type}', but this model takes text only.`,
      );
    })
    .join('');
}

function messageOf(message: MessageBody, index: number): ChatMessage {
  const path = `messages[${index}]`;
  const { role } = message;
  const hasCalls = message.tool_calls !== null && message.tool_calls !== undefined && message.tool_calls.length > 0;
  const empty = message.content === null || message.content === undefined;
  if (empty && !(role === 'assistant' && hasCalls)) throw errors.missingParameter(`${path}.content`);
  if (role === 'tool' && !message.tool_call_id) throw errors.missingParameter(`${path}.tool_call_id`);
  return {
    role: role === 'developer' ? 'system' : role,
    content: textOf(message.content, `${path}.content`),
    name: message.name ?? undefined,
    toolCalls: message.tool_calls?.map((call) => ({ id: call.id, ...call.function })),
    toolCallId: message.tool_call_id ?? undefined,
  };
}

const SHOWN_LENGTH = 64;

function biasOf(bias: Readonly<Record<string, number>>): ReadonlyMap<number, number> {
  const wrong = Object.keys(bias).find((id) => !/^\d{1,9}$/.test(id));
  if (wrong !== undefined) {
    const param = `logit_bias.${wrong.slice(0, SHOWN_LENGTH)}`;
    throw errors.invalidParameter(
      param,
      `'${param}' is no token id. The keys of 'logit_bias' are whole numbers from 0.`,
    );
  }
  return new Map(Object.entries(bias).map(([id, value]) => [Number(id), value]));
}

function samplingOf(body: Omit<ChatCompletionBody, 'messages'> | CompletionBody): SamplingOptions {
  const maxCompletion = 'max_completion_tokens' in body ? body.max_completion_tokens : undefined;
  return {
    maxTokens: maxCompletion ?? body.max_tokens ?? undefined,
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    seed: body.seed ?? undefined,
    stop: typeof body.stop === 'string' ? [body.stop] : (body.stop ?? undefined),
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    logitBias: body.logit_bias ? biasOf(body.logit_bias) : undefined,
  };
}

function formatOf(format: ChatCompletionBody['response_format']): OutputFormat | undefined {
  if (format === null || format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') {
    // Some clients put the schema here.
    return format.schema ? { type: 'json_schema', schema: format.schema } : { type: 'json_object' };
  }
  const { name, schema } = format.json_schema;
  if (!schema) throw errors.missingParameter('response_format.json_schema.schema');
  return { type: 'json_schema', name: name ?? undefined, schema };
}

function toolChoiceOf(body: ChatCompletionBody): ToolChoice | undefined {
  const { tool_choice: choice, tools } = body;
  if (choice === null || choice === undefined) return undefined;
  const names = (tools ?? []).map((tool) => tool.function.name);
  if (choice !== 'none' && choice !== 'auto' && names.length === 0) {
    throw errors.invalidParameter('tool_choice', "'tool_choice' asks for a tool, but 'tools' is empty.");
  }
  if (typeof choice === 'string') return choice;
  if (!names.includes(choice.function.name)) {
    throw errors.invalidParameter(
      'tool_choice',
      `'tool_choice' names '${choice.function.name}', which is not among the tools: ${names.join(', ')}.`,
    );
  }
  return { name: choice.function.name };
}

/** What no model here can do is refused: left out in silence, the answer would not be what was asked for. */
function refuseUnsupported(body: ChatCompletionBody): void {
  if (body.modalities?.includes('audio') || body.audio) {
    const param = body.audio ? 'audio' : 'modalities';
    throw errors.unsupportedParameter(param, `'${param}' asks for speech, but chat models here answer with text only.`);
  }
  if (body.functions && body.functions.length > 0) {
    throw errors.unsupportedParameter('functions', "'functions' is not supported. Send 'tools' instead.");
  }
  if (body.web_search_options) {
    throw errors.unsupportedParameter('web_search_options', "'web_search_options' is not supported: leave it out.");
  }
}

/** What goes to an engine in one piece besides the prompt. Many times more than any tools and schemas have. */
const WHOLE_FIELDS = ['tools', 'tool_choice', 'response_format', 'stop', 'logit_bias'] as const;
const MAX_FIELD_LENGTH = 1_048_576;

function refuseOversized(body: Partial<Record<(typeof WHOLE_FIELDS)[number], unknown>>): void {
  if (!isLarge(body)) return;
  for (const field of WHOLE_FIELDS) {
    const value = body[field];
    const length = typeof value === 'string' ? value.length : largeBytes(value);
    if (length <= MAX_FIELD_LENGTH) continue;
    throw errors.invalidParameter(field, `'${field}' is longer than the ${MAX_FIELD_LENGTH} bytes that are accepted.`);
  }
}

const GENERATION_FIELDS: FieldNames = {
  maxTokens: 'max_tokens',
  logitBias: 'logit_bias',
  toolChoice: 'tool_choice',
  format: 'response_format',
  'format.schema': 'response_format.json_schema.schema',
  'tools.*.parameters': 'tools.*.function.parameters',
};
const NEWER_FIELDS: FieldNames = { ...GENERATION_FIELDS, maxTokens: 'max_completion_tokens' };

/** Clients know the limit of an answer by two names: errors use the one that was sent. */
export const generationFieldNames = (body: unknown): FieldNames =>
  typeof body === 'object' && body !== null && 'max_completion_tokens' in body && body.max_completion_tokens
    ? NEWER_FIELDS
    : GENERATION_FIELDS;

export function chatCommand(body: ChatCompletionBody): ChatCommand {
  refuseOversized(body);
  refuseUnsupported(body);
  if (body.top_logprobs && !body.logprobs) {
    throw errors.invalidParameter('top_logprobs', "'top_logprobs' needs 'logprobs' to be true.");
  }
  const request: ChatRequest = {
    ...samplingOf(body),
    prompt: { messages: body.messages.map(messageOf) },
    tools: body.tools?.map(({ function: tool }) => ({
      name: tool.name,
      description: tool.description ?? undefined,
      parameters: tool.parameters ?? undefined,
    })),
    toolChoice: toolChoiceOf(body),
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    format: formatOf(body.response_format),
    logprobs: body.logprobs ? { top: body.top_logprobs ?? 0 } : undefined,
  };
  return { model: body.model, choices: body.n ?? 1, request };
}

/** The older endpoint gives 16 tokens unless told otherwise. */
const COMPLETION_MAX_TOKENS = 16;

export function completionCommand(body: CompletionBody): ChatCommand {
  refuseOversized(body);
  for (const field of ['echo', 'suffix'] as const) {
    if (body[field]) throw errors.unsupportedParameter(field, `'${field}' is not supported.`);
  }
  if (body.best_of && body.best_of > (body.n ?? 1)) {
    throw errors.unsupportedParameter('best_of', "'best_of' above 'n' is not supported.");
  }
  const { prompt } = body;
  if (typeof prompt[0] === 'string' && typeof prompt !== 'string' && prompt.length > 1) {
    throw errors.invalidParameter('prompt', `'prompt' holds ${prompt.length} prompts; one is accepted in a request.`);
  }
  const request: ChatRequest = {
    ...samplingOf(body),
    maxTokens: body.max_tokens ?? COMPLETION_MAX_TOKENS,
    prompt:
      typeof prompt === 'string'
        ? { text: prompt }
        : typeof prompt[0] === 'string'
          ? { text: prompt[0] }
          : { tokens: prompt as number[] },
    logprobs: body.logprobs === null || body.logprobs === undefined ? undefined : { top: body.logprobs },
  };
  return { model: body.model, choices: body.n ?? 1, request };
}
