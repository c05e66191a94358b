import type { ChatMessage, ChatRequest, OutputFormat, ToolChoice } from '../../../engines/engine.ts';
import { errors } from '../../../errors/errors.ts';
import type { ChatCommand, PlacedReference } from '../../../services/chat.ts';
import type { ImageReference } from '../../../services/images.ts';
import { refuseOversized, samplingOf } from '../../generation/request.ts';
import type { ChatCompletionBody, MessageBody } from './schema.ts';

type Part = Exclude<MessageBody['content'], string | null | undefined>[number];

/** Text and images of a message. Images keep their places by the number of characters before them. */
function contentOf({ content, role }: MessageBody, message: number): { text: string; images: PlacedReference[] } {
  if (content === null || content === undefined) return { text: '', images: [] };
  if (typeof content === 'string') return { text: content, images: [] };
  const images: PlacedReference[] = [];
  let text = '';
  for (const [index, part] of content.entries()) {
    const field = `messages[${message}].content[${index}]`;
    if (part.type === 'text') text += part.text;
    else images.push({ ...imageOf(part, role, field), field, message, at: text.length });
  }
  return { text, images };
}

function imageOf(part: Part, role: MessageBody['role'], field: string): Pick<ImageReference, 'source' | 'detail'> {
  if (part.type !== 'image_url' && part.type !== 'file') {
    throw errors.unsupportedParameter(field, `'${field}' is of type '${part.type}', which no model here takes.`);
  }
  if (role !== 'user' && role !== 'tool') {
    throw errors.unsupportedParameter(field, `'${field}' is an image in a message of the role '${role}'.`);
  }
  return part.type === 'file'
    ? { source: { fileId: part.file.file_id } }
    : { source: { url: part.image_url.url }, detail: part.image_url.detail ?? undefined };
}

function messageOf(message: MessageBody, index: number): { message: ChatMessage; images: PlacedReference[] } {
  const path = `messages[${index}]`;
  const { role } = message;
  const hasCalls = message.tool_calls !== null && message.tool_calls !== undefined && message.tool_calls.length > 0;
  const empty = message.content === null || message.content === undefined;
  if (empty && !(role === 'assistant' && hasCalls)) throw errors.missingParameter(`${path}.content`);
  if (role === 'tool' && !message.tool_call_id) throw errors.missingParameter(`${path}.tool_call_id`);
  const { text, images } = contentOf(message, index);
  return {
    message: {
      role: role === 'developer' ? 'system' : role,
      content: text,
      name: message.name ?? undefined,
      reasoning: role === 'assistant' ? (message.reasoning_content ?? undefined) : undefined,
      toolCalls: message.tool_calls?.map((call) => ({ id: call.id, ...call.function })),
      toolCallId: message.tool_call_id ?? undefined,
    },
    images,
  };
}

function formatOf(format: ChatCompletionBody['response_format']): OutputFormat | undefined {
  if (format === null || format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') {
    // Some clients send the schema here.
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

/** Refuses what no model here supports: ignoring it would give another answer than the client asked for. */
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

export function chatCommand(body: ChatCompletionBody): ChatCommand {
  refuseOversized(body);
  refuseUnsupported(body);
  if (body.top_logprobs && !body.logprobs) {
    throw errors.invalidParameter('top_logprobs', "'top_logprobs' needs 'logprobs' to be true.");
  }
  const messages = body.messages.map(messageOf);
  const request: ChatRequest = {
    ...samplingOf(body),
    prompt: { messages: messages.map(({ message }) => message) },
    tools: body.tools?.map(({ function: { name, description, parameters, ...extra } }) => ({
      name,
      description: description ?? undefined,
      parameters: parameters ?? undefined,
      extra: Object.keys(extra).length > 0 ? extra : undefined,
    })),
    toolChoice: toolChoiceOf(body),
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    reasoningEffort: body.reasoning_effort ?? undefined,
    format: formatOf(body.response_format),
    logprobs: body.logprobs ? { top: body.top_logprobs ?? 0 } : undefined,
  };
  return { model: body.model, choices: body.n ?? 1, request, images: messages.flatMap(({ images }) => images) };
}
