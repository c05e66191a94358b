import type { ChatRequest, OutputFormat, ToolCall, ToolChoice, ToolDefinition } from '@baobab/core/engine/engine.ts';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import type { FieldNames } from '../../answer/field-names.ts';
import { type DraftMessage, finishMessages, refuseDocuments } from '../../generation/draft-messages.ts';
import { refuseOversized } from '../../generation/request.ts';
import { required, toolChoiceOf } from '../../generation/tools.ts';
import { contentOf, withoutBillingLine } from './content.ts';
import type { BlockBody, CountTokensBody, CreateMessageBody, MessageBody } from './schema.ts';

export const MESSAGE_FIELDS: FieldNames = {
  maxTokens: 'max_tokens',
  'messages.*': 'messages',
  toolChoice: 'tool_choice',
  reasoningEffort: 'thinking',
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
    stop: body.stop_sequences && body.stop_sequences.length > 0 ? body.stop_sequences : undefined,
    reasoningEffort: body.thinking?.type === 'disabled' ? 'none' : undefined,
  };
  return { model: body.model, choices: 1, request, images, documents, lowersMaxTokens: true };
}
