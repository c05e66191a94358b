import type { ChatRequest, ToolChoice } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import { type FileContent, fileContent } from '../../generation/attached-file.ts';
import {
  addFile,
  type DraftContent,
  type DraftMessage,
  emptyContent,
  placeFiles,
} from '../../generation/draft-messages.ts';
import {
  refuseOversized,
  requestFieldsOf,
  required,
  toolChoiceOf,
  turnsThinkingOff,
} from '../../generation/request.ts';
import type { ChatCompletionBody, MessageBody } from './schema.ts';

type Part = Exclude<MessageBody['content'], string | null | undefined>[number];

/** Text, images and files of a message. They keep their places by the number of characters before them. */
function contentOf({ content: given, role }: MessageBody, message: number): DraftContent {
  const content = emptyContent();
  if (typeof given === 'string') content.text = given;
  if (!Array.isArray(given)) return content;
  for (const [index, part] of given.entries()) {
    if (part.type === 'text') content.text += part.text;
    else addFile(content, partContent(part, role, `messages[${message}].content[${index}]`));
  }
  return content;
}

function partContent(part: Part, role: MessageBody['role'], field: string): FileContent {
  if (part.type !== 'image_url' && part.type !== 'file') {
    throw errors.unsupportedParameter(field, `'${field}' is of type '${part.type}', which no model here takes.`);
  }
  if (role !== 'user' && role !== 'tool') {
    const kind = part.type === 'file' ? 'a file' : 'an image';
    throw errors.unsupportedParameter(field, `'${field}' is ${kind} in a message of the role '${role}'.`);
  }
  if (part.type === 'image_url') {
    return { image: { source: { url: part.image_url.url }, detail: part.image_url.detail ?? undefined, field } };
  }
  const { file_id: fileId, file_data: data, filename: name } = part.file;
  return fileContent({ fileId, data, name }, field, `${field}.file.file_data`);
}

function messageOf(message: MessageBody, index: number): DraftMessage {
  const path = `messages[${index}]`;
  const { role } = message;
  const hasCalls = message.tool_calls !== null && message.tool_calls !== undefined && message.tool_calls.length > 0;
  const empty = message.content === null || message.content === undefined;
  if (empty && !(role === 'assistant' && hasCalls)) throw errors.missingParameter(`${path}.content`);
  if (role === 'tool') required(message, 'tool_call_id', path);
  const { text, images, documents } = contentOf(message, index);
  return {
    role: role === 'developer' ? 'system' : role,
    content: text,
    name: message.name ?? undefined,
    reasoning: role === 'assistant' ? (message.reasoning_content ?? undefined) : undefined,
    toolCalls: message.tool_calls?.map((call) => ({ id: call.id, ...call.function })),
    toolCallId: message.tool_call_id ?? undefined,
    references: images,
    documents,
  };
}

function wantedTool({ tool_choice: choice, tools }: ChatCompletionBody): ToolChoice | undefined {
  if (choice === null || choice === undefined) return undefined;
  if (choice !== 'none' && choice !== 'auto' && (tools ?? []).length === 0) {
    throw errors.invalidParameter('tool_choice', "'tool_choice' asks for a tool, but 'tools' is empty.");
  }
  return typeof choice === 'string' ? choice : { name: choice.function.name };
}

function answerStartOf(body: ChatCompletionBody): ChatRequest['answerStart'] {
  const { continue_final_message: continues, add_generation_prompt: opens, messages } = body;
  if (!continues) return opens === false ? 'none' : undefined;
  const field = 'continue_final_message';
  if (opens) throw errors.invalidParameter(field, `'${field}' and 'add_generation_prompt' cannot both be true.`);
  const last = messages.at(-1);
  if (last?.role === 'assistant' && !last.tool_calls?.length) return 'continued';
  throw errors.invalidParameter(field, `'${field}' needs a last message of the role 'assistant' without calls.`);
}

/** Refuses what no model here supports: ignoring it would give a different answer than the client asked for. */
function refuseUnsupported(body: ChatCompletionBody): void {
  if (body.modalities?.includes('audio') || body.audio) {
    const param = body.audio ? 'audio' : 'modalities';
    throw errors.unsupportedParameter(param, `'${param}' asks for speech, but chat models here answer with text only.`);
  }
}

export function chatCommand(body: ChatCompletionBody): ChatCommand {
  refuseOversized(body);
  refuseUnsupported(body);
  if (body.top_logprobs && !body.logprobs) {
    throw errors.invalidParameter('top_logprobs', "'top_logprobs' needs 'logprobs' to be true.");
  }
  // In the order and with the roles of the client: this is the format that engines read themselves.
  const { messages, images, documents } = placeFiles(body.messages.map(messageOf));
  const tools = body.tools?.map(({ function: { name, description, parameters, ...extra } }) => ({
    name,
    description: description ?? undefined,
    parameters: parameters ?? undefined,
    extra: Object.keys(extra).length > 0 ? extra : undefined,
  }));
  const request: ChatRequest = {
    ...requestFieldsOf(body),
    prompt: { messages },
    answerStart: answerStartOf(body),
    tools,
    toolChoice: toolChoiceOf(wantedTool(body), tools ?? []),
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    reasoningEffort: body.reasoning_effort ?? (turnsThinkingOff(body) ? 'none' : undefined),
    logprobs: body.logprobs ? { top: body.top_logprobs ?? 0 } : undefined,
  };
  return { model: body.model, choices: body.n ?? 1, request, images, documents };
}
