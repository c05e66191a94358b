import { checkMetadata } from '@baobab/core/domain/metadata.ts';
import type { ChatRequest, OutputFormat } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import { type DraftMessage, finishMessages } from '../../generation/draft-messages.ts';
import { refuseOversized } from '../../generation/request.ts';
import { messagesOf } from './input.ts';
import type { CreateResponseBody, InputItemBody } from './schema.ts';
import { toolsOf } from './tools.ts';

export const RESPONSE_FIELDS: FieldNames = {
  maxTokens: 'max_output_tokens',
  messages: 'input',
  previousResponseId: 'previous_response_id',
  'messages.*': 'input',
  toolChoice: 'tool_choice',
  reasoningEffort: 'reasoning.effort',
  format: 'text.format',
  'format.schema': 'text.format.schema',
};

/** The input as items. */
export const inputItems = ({ input }: CreateResponseBody): InputItemBody[] =>
  typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : (input ?? []);

function formatOf(text: CreateResponseBody['text']): OutputFormat | undefined {
  const format = text?.format;
  if (!format || format.type === 'text') return undefined;
  if (format.type === 'json_object') return format;
  const { type, name, schema, strict } = format;
  return { type, name, schema, strict: strict ?? undefined };
}

/** `before`: the items of the conversation so far. */
function responseMessages(body: CreateResponseBody, before: readonly InputItemBody[]) {
  const instructions: DraftMessage[] = body.instructions ? [{ role: 'system', content: body.instructions }] : [];
  // One list: a call may be in one part and its output in the next.
  const earlier = { count: before.length, field: body.conversation ? 'conversation' : 'previous_response_id' };
  return finishMessages([...instructions, ...messagesOf([...before, ...inputItems(body)], earlier)]);
}

export const wantsLogprobs = ({ include, top_logprobs: top }: CreateResponseBody): boolean =>
  (include?.includes('message.output_text.logprobs') ?? false) || (top ?? 0) > 0;

export function responseCommand(body: CreateResponseBody, before: readonly InputItemBody[] = []): ChatCommand {
  refuseOversized(body);
  if (body.prompt) {
    throw errors.unsupportedParameter('prompt', "'prompt' names a stored prompt; there are none. Send 'instructions'.");
  }
  if (body.metadata) checkMetadata(body.metadata);
  const { messages, images, documents } = responseMessages(body, before);
  const request: ChatRequest = {
    prompt: { messages },
    ...toolsOf(body),
    format: formatOf(body.text),
    maxTokens: body.max_output_tokens ?? undefined,
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    reasoningEffort: body.reasoning?.effort ?? undefined,
    logprobs: wantsLogprobs(body) ? { top: body.top_logprobs ?? 0 } : undefined,
  };
  return { model: body.model, choices: 1, request, images, documents };
}
