import type { ChatEvent, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Static } from 'typebox';
import type { AnswerWriter } from '../../../inference/chat.ts';
import type { CreateMessageBody, MessageObject } from './schema.ts';

export type WireMessage = Static<typeof MessageObject>;

type EndEvent = Extract<ChatEvent, { type: 'end' }>;

/** Clients send thinking back only if it is signed. Nothing is checked here: the text is the client's own. */
const SIGNATURE = 'baobab';

export const usageToWire = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage): WireMessage['usage'] => ({
  input_tokens: promptTokens - cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  output_tokens: completionTokens,
});

const event = (type: string, fields: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;

interface OpenBlock {
  kind: 'text' | 'thinking' | number;
  index: number;
  block: { type: string; [field: string]: unknown };
  /** The text of the block, or the JSON of its input. */
  text: string;
}

function parsedInput(text: string): unknown {
  try {
    return JSON.parse(text || '{}');
  } catch {
    return {};
  }
}

/** Turns the events of a chat into a message and, on the way, into the events of its stream. */
export function createMessageWriter(id: string, body: CreateMessageBody): AnswerWriter<WireMessage> {
  const showsThinking = body.thinking?.type === 'enabled' || body.thinking?.type === 'adaptive';
  const message: WireMessage = {
    id,
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: usageToWire({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 }),
  };
  let open: OpenBlock | undefined;
  let begun = false;
  let blocks = 0;

  function begin(): string {
    if (begun) return '';
    begun = true;
    return event('message_start', { message: { ...message, content: [] } }) + event('ping');
  }

  function close(): string {
    if (open === undefined) return '';
    const { kind, index, block, text } = open;
    open = undefined;
    const isThinking = kind === 'thinking';
    if (kind === 'text') block.text = text;
    else if (isThinking) Object.assign(block, { thinking: text, signature: SIGNATURE });
    else block.input = parsedInput(text);
    message.content.push(block);
    const signature = isThinking
      ? event('content_block_delta', { index, delta: { type: 'signature_delta', signature: SIGNATURE } })
      : '';
    return signature + event('content_block_stop', { index });
  }

  function write(kind: OpenBlock['kind'], block: OpenBlock['block'], delta: object, text: string): string {
    let written = begin();
    if (open?.kind !== kind) {
      written += close();
      open = { kind, index: blocks++, block, text: '' };
      written += event('content_block_start', { index: open.index, content_block: block });
    }
    open.text += text;
    return text === '' ? written : written + event('content_block_delta', { index: open.index, delta });
  }

  function stop({ reason, stopSequence, stoppedBy }: EndEvent): void {
    if (stoppedBy !== undefined) message.stopped_by = stoppedBy;
    const isStopped = stopSequence !== undefined && body.stop_sequences?.includes(stopSequence);
    message.stop_sequence = isStopped ? stopSequence : null;
    if (reason === 'tool_calls') message.stop_reason = 'tool_use';
    else if (reason === 'length') message.stop_reason = 'max_tokens';
    else message.stop_reason = isStopped ? 'stop_sequence' : 'end_turn';
  }

  return {
    take(_choice, given) {
      switch (given.type) {
        case 'start':
          message.usage = usageToWire({ ...given, completionTokens: 0 });
          return begin();
        case 'text-delta':
          return write('text', { type: 'text', text: '' }, { type: 'text_delta', text: given.text }, given.text);
        case 'reasoning-delta': {
          const block = { type: 'thinking', thinking: '', signature: '' };
          const delta = { type: 'thinking_delta', thinking: given.text };
          return showsThinking ? write('thinking', block, delta, given.text) : '';
        }
        case 'tool-call-delta': {
          const block = { type: 'tool_use', id: given.id ?? '', name: given.name ?? '', input: {} };
          const delta = { type: 'input_json_delta', partial_json: given.argumentsDelta };
          return write(given.index, block, delta, given.argumentsDelta);
        }
        case 'end':
          stop(given);
          return begin() + close();
      }
    },
    end(usage) {
      message.usage = usageToWire(usage);
      const { stop_reason, stop_sequence, stopped_by } = message;
      const delta = { stop_reason, stop_sequence, stopped_by };
      return event('message_delta', { delta, usage: message.usage }) + event('message_stop');
    },
    fail: (error, requestId) => `event: error\ndata: ${JSON.stringify(errorToWire(error, requestId))}\n\n`,
    answer: () => message,
  };
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** An error in the shape of this API. Clients know a prompt that is too long by these words, and then shorten it. */
export function errorToWire({ status, code, message }: ApiError, requestId: string) {
  const type = ERROR_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  const text = code === 'context_length_exceeded' ? `prompt is too long: ${message}` : message;
  return { type: 'error' as const, error: { type, message: text }, request_id: requestId };
}
