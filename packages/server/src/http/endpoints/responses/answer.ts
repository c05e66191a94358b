import type { ChatEvent, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Static } from 'typebox';
import { type ItemEvent, type OutputItem, OutputItems } from './items/output-items.ts';
import { wantsLogprobs } from './request.ts';
import type { CreateResponseBody, ResponseObject, ToolBody } from './schema.ts';

export type WireResponse = Static<typeof ResponseObject> & { [field: string]: unknown };

export interface ResponseHead {
  id: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Whether it is stored, which may differ from what the client asked for. */
  store: boolean;
  conversationId?: string | undefined;
}

/** Clients want every field of a function in the tools they get back. */
const toolToWire = (tool: ToolBody): object =>
  tool.type === 'function'
    ? {
        ...tool,
        description: tool.description ?? null,
        parameters: tool.parameters ?? null,
        strict: tool.strict ?? false,
      }
    : tool;

/** A response with nothing in it yet. Every field of the request is there, because clients read them without checking. */
export function emptyResponse(
  head: ResponseHead,
  body: CreateResponseBody,
  status: WireResponse['status'],
): WireResponse {
  return {
    id: head.id,
    object: 'response',
    created_at: Math.floor(head.createdAt / 1000),
    completed_at: null,
    status,
    background: body.background ?? false,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: body.max_tool_calls ?? null,
    model: body.model,
    output: [],
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: body.previous_response_id ?? null,
    ...(head.conversationId === undefined ? {} : { conversation: { id: head.conversationId } }),
    prompt_cache_key: body.prompt_cache_key ?? null,
    prompt_cache_retention: null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: body.reasoning?.summary ?? null },
    safety_identifier: body.safety_identifier ?? null,
    service_tier: 'default',
    store: head.store,
    temperature: body.temperature ?? 1,
    text: { ...body.text, format: body.text?.format ?? { type: 'text' }, verbosity: body.text?.verbosity ?? 'medium' },
    tool_choice: body.tool_choice ?? 'auto',
    tools: (body.tools ?? []).map(toolToWire),
    top_logprobs: body.top_logprobs ?? 0,
    top_p: body.top_p ?? 1,
    presence_penalty: body.presence_penalty ?? 0,
    frequency_penalty: body.frequency_penalty ?? 0,
    truncation: body.truncation ?? 'disabled',
    usage: null,
    ...(body.user ? { user: body.user } : {}),
    metadata: body.metadata ?? {},
  };
}

export const usageToWire = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage, reasoningTokens: number) => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: promptTokens + completionTokens,
});

/** The error codes that the official clients know. */
const errorCode = ({ type, status }: ApiError): string => {
  if (type === 'rate_limit_error' || type === 'insufficient_quota') return 'rate_limit_exceeded';
  return status >= 500 ? 'server_error' : 'invalid_prompt';
};

export const responseError = (error: ApiError): NonNullable<WireResponse['error']> => ({
  code: errorCode(error),
  message: error.message,
});

export type StreamEvent = ItemEvent & { sequence_number: number };

export interface ResponseWriter {
  /** The response as it is now. */
  readonly response: WireResponse;
  /** The events before the first output. */
  begin(): StreamEvent[];
  take(event: ChatEvent): StreamEvent[];
  /** Ends the items, not the response: it is stored before its last event is sent. */
  closeItems(): StreamEvent[];
  /** Fills in how it ended. */
  complete(usage: TokenUsage, now: number): void;
  /** The last event of a response that is complete. */
  ending(): StreamEvent[];
  fail(error: ApiError): StreamEvent[];
}

/**
 * Turns the events of a chat into a response and, on the way, into the events of its stream. `lastEvent`: the sequence number of the
 * last event that was sent already, when the response was put into the queue.
 */
export function createResponseWriter(
  head: ResponseHead,
  body: CreateResponseBody,
  customTools: ReadonlySet<string>,
  lastEvent?: number,
): ResponseWriter {
  const response = emptyResponse(head, body, 'in_progress');
  const items = new OutputItems({
    idPart: head.id.slice(head.id.indexOf('_') + 1),
    customTools,
    withLogprobs: wantsLogprobs(body),
    sealsReasoning: body.include?.includes('reasoning.encrypted_content') ?? false,
    summarizes: Boolean(body.reasoning?.summary),
  });
  let sequence = (lastEvent ?? -1) + 1;
  let isCut = false;
  /** Characters, for a share of the tokens: engines count reasoning and answer together. */
  const written = { reasoning: 0, answer: 0 };

  const numbered = (events: readonly ItemEvent[]): StreamEvent[] =>
    events.map((event) => ({ ...event, sequence_number: sequence++ }));
  const whole = (type: string): ItemEvent => ({ type, response: { ...response } });

  function reasoningTokens(total: number): number {
    const characters = written.reasoning + written.answer;
    return characters === 0 ? 0 : Math.round((total * written.reasoning) / characters);
  }

  return {
    response,
    begin: () => {
      const begun = whole('response.in_progress');
      return numbered(lastEvent === undefined ? [whole('response.created'), begun] : [begun]);
    },
    take(event) {
      if (event.type === 'end') isCut = event.reason === 'length';
      if (event.type === 'reasoning-delta') written.reasoning += event.text.length;
      if (event.type === 'text-delta') written.answer += event.text.length;
      if (event.type === 'tool-call-delta') written.answer += event.argumentsDelta.length;
      return numbered(items.take(event));
    },
    closeItems() {
      const events = numbered(items.end(isCut ? 'incomplete' : 'completed'));
      response.output = items.output satisfies OutputItem[];
      return events;
    },
    complete(usage, now) {
      response.status = isCut ? 'incomplete' : 'completed';
      response.incomplete_details = isCut ? { reason: 'max_output_tokens' } : null;
      response.completed_at = isCut ? null : Math.floor(now / 1000);
      response.usage = usageToWire(usage, reasoningTokens(usage.completionTokens));
    },
    ending: () => numbered([whole(isCut ? 'response.incomplete' : 'response.completed')]),
    fail(error) {
      items.end('incomplete');
      response.output = items.output;
      response.status = 'failed';
      response.error = responseError(error);
      return numbered([whole('response.failed')]);
    },
  };
}

/** The first events of a response that waits to be run in the background. */
export const queuedEvents = (response: WireResponse): StreamEvent[] =>
  ['response.created', 'response.queued'].map((type, index) => ({ type, response, sequence_number: index }));

/** A stream that breaks while its response may go on. */
export const errorEvent = ({ code, message }: ApiError, sequence: number): StreamEvent => ({
  type: 'error',
  code,
  message,
  param: null,
  sequence_number: sequence,
});

/** The end of a stream, as the Open Responses specification wants it. OpenAI's clients skip it. */
export const STREAM_END = 'data: [DONE]\n\n';

export const eventText = (event: StreamEvent): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export const eventsText = (events: readonly StreamEvent[]): string => events.map(eventText).join('');
