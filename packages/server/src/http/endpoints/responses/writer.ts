import type { ChatEvent, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import type { Static } from 'typebox';
import type { ResponseHead, ResponseWriter } from '../../../services/responses/response-format.ts';
import { stoppedByToWire } from '../../generation/choices.ts';
import { wantsLogprobs } from './command.ts';
import type { ItemEvent } from './open-items.ts';
import { OutputItems } from './output-items.ts';
import type { CreateResponseBody, ResponseObject, ToolBody } from './schema.ts';

export type WireResponse = Static<typeof ResponseObject> & { [field: string]: unknown };

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

/** The part of the ids of its items that names their response. */
export const idPartOf = (responseId: string): string => responseId.slice(responseId.indexOf('_') + 1);

export interface EventWriterOptions {
  head: ResponseHead;
  body: CreateResponseBody;
  /** Names of tools whose calls are items of type `custom_tool_call`. */
  customTools: ReadonlySet<string>;
  /** The sequence number of the last event that was sent already, when the response was put into the queue. */
  lastEvent?: number | undefined;
  clock: Clock;
}

/** Writes a response and, on the way, the events of its stream. */
export class ResponseEventWriter implements ResponseWriter<WireResponse> {
  hasBegun = false;
  lastEvent: number;
  readonly #response: WireResponse;
  readonly #items: OutputItems;
  readonly #isQueued: boolean;
  readonly #clock: Clock;
  #isCut = false;
  /** Characters, for a share of the tokens: engines count reasoning and answer together. */
  readonly #written = { reasoning: 0, answer: 0 };

  constructor({ head, body, customTools, lastEvent, clock }: EventWriterOptions) {
    this.lastEvent = lastEvent ?? -1;
    this.#isQueued = lastEvent !== undefined;
    this.#clock = clock;
    this.#response = emptyResponse(head, body, 'in_progress');
    this.#items = new OutputItems({
      idPart: idPartOf(head.id),
      customTools,
      withLogprobs: wantsLogprobs(body),
      sealsReasoning: body.include?.includes('reasoning.encrypted_content') ?? false,
      summarizes: Boolean(body.reasoning?.summary),
    });
  }

  take(_choice: number, event: ChatEvent): string {
    const begun = this.#begin();
    if (event.type === 'end') {
      this.#isCut = event.reason === 'length';
      Object.assign(this.#response, stoppedByToWire(event));
    }
    if (event.type === 'reasoning-delta') this.#written.reasoning += event.text.length;
    if (event.type === 'text-delta') this.#written.answer += event.text.length;
    if (event.type === 'tool-call-delta') this.#written.answer += event.argumentsDelta.length;
    return begun + this.#text(this.#items.take(event));
  }

  end(usage: TokenUsage): string {
    const response = this.#response;
    const isCut = this.#isCut;
    const text = this.#begin() + this.#text(this.#items.end(isCut ? 'incomplete' : 'completed'));
    response.output = this.#items.output;
    response.status = isCut ? 'incomplete' : 'completed';
    response.incomplete_details = isCut ? { reason: 'max_output_tokens' } : null;
    response.completed_at = isCut ? null : Math.floor(this.#clock.now() / 1000);
    response.usage = usageToWire(usage, this.#reasoningTokens(usage.completionTokens));
    return text;
  }

  answer(): WireResponse {
    return this.#response;
  }

  setStored(isStored: boolean): void {
    this.#response.store = isStored;
  }

  ending(): string {
    return this.#whole(this.#isCut ? 'response.incomplete' : 'response.completed') + STREAM_END;
  }

  fail(error: ApiError): string {
    this.#items.end('incomplete');
    Object.assign(this.#response, { output: this.#items.output, status: 'failed', error: responseError(error) });
    return this.#whole('response.failed') + STREAM_END;
  }

  #begin(): string {
    if (this.hasBegun) return '';
    this.hasBegun = true;
    return (this.#isQueued ? '' : this.#whole('response.created')) + this.#whole('response.in_progress');
  }

  /** An event with the response as it is now. */
  #whole(type: string): string {
    return this.#text([{ type, response: this.#response }]);
  }

  #text(events: readonly ItemEvent[]): string {
    return events.map((event) => eventText({ ...event, sequence_number: ++this.lastEvent })).join('');
  }

  #reasoningTokens(total: number): number {
    const { reasoning, answer } = this.#written;
    return reasoning + answer === 0 ? 0 : Math.round((total * reasoning) / (reasoning + answer));
  }
}

/** The first events of a response that waits to be run in the background. */
export const queuedEvents = (response: WireResponse): StreamEvent[] =>
  ['response.created', 'response.queued'].map((type, index) => ({ type, response, sequence_number: index }));
