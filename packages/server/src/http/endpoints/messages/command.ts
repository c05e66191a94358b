import { framedText } from '@baobab/core/domain/document.ts';
import type {
  ChatMessage,
  ChatRequest,
  OutputFormat,
  ToolCall,
  ToolChoice,
  ToolDefinition,
} from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Static } from 'typebox';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import type { ImageReference } from '../../../inference/inputs/images.ts';
import { accepts } from '../../../validation/first-problem.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import { MAX_LIST } from '../../body/bounded.ts';
import type { FileContent } from '../../generation/attached-file.ts';
import {
  addFile,
  type DraftContent,
  type DraftMessage,
  emptyContent,
  finishMessages,
  refuseDocuments,
} from '../../generation/draft-messages.ts';
import { refuseOversized, required, toolChoiceOf } from '../../generation/request.ts';
import {
  type BlockBody,
  type CountTokensBody,
  type CreateMessageBody,
  InnerBlock,
  type MessageBody,
} from './schema.ts';

export const MESSAGE_FIELDS: FieldNames = {
  maxTokens: 'max_tokens',
  'messages.*': 'messages',
  toolChoice: 'tool_choice',
  reasoningEffort: 'thinking',
  answerStart: 'messages',
  topK: 'top_k',
  format: 'output_config.format',
  'format.schema': 'output_config.format.schema',
  'tools.*.parameters': 'tools.*.input_schema',
};

const systemMessage = (text: string): DraftMessage => ({ role: 'system', content: withoutBillingLine(text) });

function systemMessages({ system }: CountTokensBody): DraftMessage[] {
  if (!system) return [];
  return typeof system === 'string' ? [systemMessage(system)] : system.map(({ text }) => systemMessage(text));
}

function assistantMessage(blocks: readonly BlockBody[], path: string): DraftMessage {
  const toolCalls: ToolCall[] = [];
  let reasoning = '';
  for (const [index, block] of blocks.entries()) {
    const at = `${path}[${index}]`;
    if (block.type === 'thinking') reasoning += block.thinking ?? '';
    if (block.type !== 'tool_use') continue;
    const call = { id: required(block, 'id', at), name: required(block, 'name', at) };
    toolCalls.push({ ...call, arguments: JSON.stringify(block.input ?? {}) });
  }
  const content = contentOf(blocks, path);
  refuseDocuments(content, 'assistant');
  return {
    role: 'assistant',
    content: content.text,
    ...(reasoning !== '' && { reasoning }),
    ...(toolCalls.length > 0 && { toolCalls }),
  };
}

/** Results of tools come before what the user says: they must follow the calls. */
function userMessages(blocks: readonly BlockBody[], path: string): DraftMessage[] {
  const messages: DraftMessage[] = [];
  for (const [index, block] of blocks.entries()) {
    if (block.type !== 'tool_result') continue;
    const at = `${path}[${index}]`;
    const { text, images, documents } = contentOf(block.content, `${at}.content`);
    const toolCallId = required(block, 'tool_use_id', at);
    messages.push({ role: 'tool', toolCallId, content: text, references: images, documents });
  }
  const { text, images, documents } = contentOf(blocks, path);
  if (text !== '' || images.length > 0 || documents.length > 0 || messages.length === 0) {
    messages.push({ role: 'user', content: text, references: images, documents });
  }
  return messages;
}

function messagesOf({ role, content }: MessageBody, index: number): DraftMessage[] {
  const path = `messages[${index}].content`;
  if (role === 'system') {
    const given = contentOf(content, path);
    refuseDocuments(given, role);
    return [systemMessage(given.text)];
  }
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return role === 'assistant' ? [assistantMessage(blocks, path)] : userMessages(blocks, path);
}

/** Tools that a server would run, such as `web_search_20250305`, are left out. */
function toolsOf({ tools }: CountTokensBody): ToolDefinition[] {
  return (tools ?? [])
    .filter(({ type }) => !type || type === 'custom')
    .map(({ name, description, input_schema: parameters, strict }) => ({
      name,
      description: description ?? undefined,
      parameters: parameters ?? undefined,
      extra: typeof strict === 'boolean' ? { strict } : undefined,
    }));
}

function wantedTool({ tool_choice: choice }: CountTokensBody): ToolChoice | undefined {
  if (!choice) return undefined;
  if (choice.type === 'tool') return { name: required(choice, 'name', 'tool_choice') };
  return choice.type === 'any' ? 'required' : choice.type;
}

function formatOf({ output_config: config }: CountTokensBody): OutputFormat | undefined {
  const format = config?.format;
  return format?.type === 'json_schema' && format.schema ? { type: 'json_schema', schema: format.schema } : undefined;
}

/** A last message of the assistant is the beginning of the answer. */
function continuesLast(messages: readonly ChatMessage[]): boolean {
  const last = messages.at(-1);
  return last?.role === 'assistant' && last.content !== '' && last.toolCalls === undefined;
}

export function messageCommand(body: CountTokensBody & Partial<CreateMessageBody>): ChatCommand {
  refuseOversized(body);
  const tools = toolsOf(body);
  const wanted = wantedTool(body);
  const { messages, images, documents } = finishMessages([
    ...systemMessages(body),
    ...body.messages.flatMap(messagesOf),
  ]);
  const request: ChatRequest = {
    prompt: { messages },
    tools: tools.length > 0 ? tools : undefined,
    toolChoice: tools.length > 0 ? toolChoiceOf(wanted, tools, 'tool_choice.name') : undefined,
    parallelToolCalls: body.tool_choice?.disable_parallel_tool_use ? false : undefined,
    format: formatOf(body),
    maxTokens: body.max_tokens,
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    topK: body.top_k || undefined,
    answerStart: continuesLast(messages) ? 'continued' : undefined,
    stop: body.stop_sequences && body.stop_sequences.length > 0 ? body.stop_sequences : undefined,
    reasoningEffort: body.thinking?.type === 'disabled' ? 'none' : undefined,
  };
  return { model: body.model, choices: 1, request, images, documents, lowersMaxTokens: true };
}

type Block = Static<typeof InnerBlock>;

/**
 * Claude Code begins its system prompt with a line that changes with every request. It would make every cached prefix
 * useless.
 */
const withoutBillingLine = (text: string): string => text.replace(/^x-anthropic-billing-header:[^\n]*\n*/i, '');

function imageOf({ source }: Block, field: string): ImageReference {
  if (source?.type === 'base64' && source.data) {
    return { source: { url: `data:${source.media_type ?? 'image/png'};base64,${source.data}` }, field };
  }
  if (source?.type === 'url' && source.url) return { source: { url: source.url }, field };
  if (source?.type === 'file' && source.file_id) return { source: { fileId: source.file_id }, field };
  throw errors.missingParameter(`${field}.source`);
}

/** The text of a document in blocks. */
function blocksText(content: unknown, path: string): string {
  if (typeof content === 'string') return content;
  const { text, images } = contentOf(content, path);
  if (images.length > 0 || !Array.isArray(content)) {
    throw errors.unsupportedParameter(path, `'${path}' must be text or blocks of text.`);
  }
  return text;
}

function documentOf({ source, title }: Block, path: string): FileContent {
  const given = { tag: 'document' as const, name: title ?? undefined, field: path };
  const framed = (text: string) => ({ text: framedText({ tag: 'document', name: title ?? 'document' }, text) });
  const { type, data, media_type: mediaType } = source ?? {};
  if (type === 'file' && source?.file_id) return { document: { source: { fileId: source.file_id }, ...given } };
  if (type === 'content') return framed(blocksText(source?.content, `${path}.source.content`));
  if (type === 'url') {
    throw errors.unsupportedParameter(
      path,
      `'${path}' is a document at an address: documents are not fetched from the network. Send its content.`,
    );
  }
  if (typeof data !== 'string') throw errors.missingParameter(`${path}.source.data`);
  if (type === 'text') return framed(data);
  if (mediaType?.startsWith('text/')) return framed(Buffer.from(data, 'base64').toString());
  if (mediaType === 'application/pdf') return { document: { source: { pdfBase64: data }, ...given } };
  throw errors.unsupportedParameter(path, `'${path}' is a document that no model here reads. Send a PDF or its text.`);
}

const READ_TYPES = new Set(['text', 'image', 'document']);

/** Blocks of tools that a server runs are skipped. Their fields can have any type. */
function isSkipped(block: unknown): boolean {
  const { type } = (block ?? {}) as { type?: unknown };
  return typeof type === 'string' && !READ_TYPES.has(type);
}

/** Adds a block that has text or an image. */
function addBlock(content: DraftContent, block: unknown, path: string): void {
  if (isSkipped(block)) return;
  // The schema of the body allows any content of a tool result.
  if (!accepts(InnerBlock, block)) {
    throw errors.invalidParameter(path, `'${path}' must be a block such as {"type": "text", "text": "Hello"}.`);
  }
  switch (block.type) {
    case 'text':
      if (typeof block.text !== 'string') throw errors.missingParameter(`${path}.text`);
      content.text += content.text === '' ? block.text : `\n\n${block.text}`;
      break;
    case 'image':
      content.images.push({ ...imageOf(block, path), at: content.text.length });
      break;
    case 'document':
      addFile(content, documentOf(block, path));
      break;
    default:
      break;
  }
}

function contentOf(given: unknown, path: string): DraftContent {
  const content = emptyContent();
  if (typeof given === 'string') content.text = given;
  else if (Array.isArray(given)) {
    // The schema of the body does not reach into the content of every block.
    if (given.length > MAX_LIST) throw errors.tooManyItems(path, given.length, MAX_LIST);
    for (const [index, block] of given.entries()) addBlock(content, block, `${path}[${index}]`);
  }
  return content;
}
