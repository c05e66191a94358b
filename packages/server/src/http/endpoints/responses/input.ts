import type { ToolCall } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ImageReference } from '../../../inference/inputs/images.ts';
import { fileContent } from '../../generation/attached-file.ts';
import {
  addFile,
  type DraftContent,
  type DraftMessage,
  emptyContent,
  refuseDocuments,
} from '../../generation/draft-messages.ts';
import { required } from '../../generation/request.ts';
import type { ContentBody, InputItemBody } from './schema.ts';
import { openText } from './sealed-text.ts';
import { customArguments } from './tools.ts';

type Part = Exclude<ContentBody, string>[number];

function imageOf(part: Part, path: string): ImageReference {
  if (part.file_id) return { source: { fileId: part.file_id }, field: path };
  if (!part.image_url) throw errors.missingParameter(`${path}.image_url`);
  const detail = part.detail === 'low' || part.detail === 'high' ? part.detail : undefined;
  return { source: { url: part.image_url }, field: path, detail };
}

function addPart(content: DraftContent, part: Part, path: string): void {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
    case 'summary_text':
    case 'reasoning_text':
      if (typeof part.text !== 'string') throw errors.missingParameter(`${path}.text`);
      content.text += part.text;
      break;
    case 'refusal':
      content.text += part.refusal ?? '';
      break;
    case 'input_image':
      content.images.push({ ...imageOf(part, path), at: content.text.length });
      break;
    case 'input_file':
      if (part.file_url && !part.file_id && !part.file_data) {
        throw errors.unsupportedParameter(
          `${path}.file_url`,
          `'${path}.file_url' is not supported: files are not fetched from the network. Send 'file_data' or 'file_id'.`,
        );
      }
      addFile(
        content,
        fileContent({ fileId: part.file_id, data: part.file_data, name: part.filename }, path, `${path}.file_data`),
      );
      break;
    default:
      throw errors.unsupportedParameter(path, `'${path}' is of type '${part.type}', which no model here takes.`);
  }
}

function contentOf(given: InputItemBody['content'] | object, path: string): DraftContent {
  const content = emptyContent();
  if (typeof given === 'string') content.text = given;
  else if (Array.isArray(given)) for (const [i, part] of given.entries()) addPart(content, part, `${path}[${i}]`);
  else if (given) content.text = JSON.stringify(given);
  return content;
}

/** An assistant turn is one inner message, and several items here: reasoning, a text and calls. */
interface Turn {
  role: 'assistant';
  texts: string[];
  reasoning: string[];
  toolCalls: ToolCall[];
}

const isTurn = (message: DraftMessage | Turn | undefined): message is Turn =>
  message?.role === 'assistant' && 'texts' in message;

/** Undefined for reasoning alone, with no text and no call: a turn that was cut off. */
function endTurn({ texts, reasoning, toolCalls }: Turn): DraftMessage | undefined {
  const content = texts.join('\n\n');
  if (content === '' && toolCalls.length === 0) return undefined;
  return {
    role: 'assistant',
    content,
    ...(reasoning.length > 0 && { reasoning: reasoning.join('\n\n') }),
    ...(toolCalls.length > 0 && { toolCalls }),
  };
}

/** The summary of a compacted conversation, as the model sees it. */
const summaryMessage = (summary: string): DraftMessage => ({
  role: 'user',
  content: `<conversation-summary>\n${summary}\n</conversation-summary>`,
});

/** The text of a reasoning item that a client sent back; empty if it came from another server. */
function openReasoning(item: InputItemBody, path: string): string {
  const { text } = contentOf(item.content, `${path}.content`);
  return text === '' ? openText(item.encrypted_content) : text;
}

/** Items from before this request, and the field that names them. */
export interface EarlierItems {
  count: number;
  field: string;
}

const NO_EARLIER: EarlierItems = { count: 0, field: 'input' };

/** Items as the messages of a chat. Items of hosted tools are skipped: no tool of that kind runs here. The first ones may be earlier items. */
export function messagesOf(items: readonly InputItemBody[], earlier: EarlierItems = NO_EARLIER): DraftMessage[] {
  /** Errors about earlier items name the field of this request that brought them in. */
  const contentAt = (index: number, content: Parameters<typeof contentOf>[0], path: string): DraftContent => {
    const given = contentOf(content, path);
    if (index < earlier.count) {
      for (const reference of [...given.images, ...given.documents]) reference.field = earlier.field;
    }
    return given;
  };
  const messages: (DraftMessage | Turn)[] = [];
  const turn = (): Turn => {
    const last = messages.at(-1);
    if (isTurn(last)) return last;
    const created: Turn = { role: 'assistant', texts: [], reasoning: [], toolCalls: [] };
    messages.push(created);
    return created;
  };
  const call = (item: InputItemBody, argumentsText: string, path: string): void => {
    const id = required(item, 'call_id', path);
    turn().toolCalls.push({ id, name: required(item, 'name', path), arguments: argumentsText });
  };

  for (const [index, item] of items.entries()) {
    const path = index < earlier.count ? earlier.field : `input[${index - earlier.count}]`;
    switch (item.type ?? 'message') {
      case 'message': {
        if (!item.role) throw errors.missingParameter(`${path}.role`);
        if (item.content === null || item.content === undefined) throw errors.missingParameter(`${path}.content`);
        const given = contentAt(index, item.content, `${path}.content`);
        const { text: content, images, documents } = given;
        if (item.role !== 'user') refuseDocuments(given, item.role);
        if (item.role === 'assistant') {
          const { texts } = turn();
          // Empty texts before the first one leave no lines.
          if (texts.length > 0 || content !== '') texts.push(content);
        } else if (item.role === 'user') messages.push({ role: 'user', content, references: images, documents });
        else messages.push({ role: 'system', content });
        break;
      }
      case 'reasoning': {
        const { reasoning } = turn();
        const text = openReasoning(item, path);
        if (text !== '') reasoning.push(text);
        break;
      }
      case 'function_call':
        call(item, item.arguments || '{}', path);
        break;
      case 'custom_tool_call':
        call(item, customArguments(item.input ?? ''), path);
        break;
      case 'function_call_output':
      case 'custom_tool_call_output': {
        const { text, images, documents } = contentAt(index, item.output, `${path}.output`);
        messages.push({
          role: 'tool',
          toolCallId: required(item, 'call_id', path),
          content: text,
          references: images,
          documents,
        });
        break;
      }
      case 'compaction': {
        const summary = openText(item.encrypted_content);
        if (summary !== '') messages.push(summaryMessage(summary));
        break;
      }
      case 'item_reference':
        throw errors.invalidParameter(`${path}.id`, `There is no stored item '${(item.id ?? '').slice(0, 100)}'.`);
      default:
        break;
    }
  }
  return messages.map((each) => (isTurn(each) ? endTurn(each) : each)).filter((each) => each !== undefined);
}
