import type { ChatEvent, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import type { Clock } from '@baobab/core/ports/clock.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { AnswerWriter } from '../../inference/chat.ts';
import type { ChatCommand } from '../../inference/chat-prompt.ts';
import { errorEvent } from '../answer/event-stream.ts';

export interface AnswerHead {
  id: string;
  created: number;
  model: string;
}

export const usageToWire = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
  cache_read_tokens: cachedTokens,
});

/** One choice of an answer that is sent in one piece. */
export interface CollectedChoice {
  text: string;
  reasoning: string;
  toolCalls: { id: string; name: string; arguments: string }[];
  logprobs: TokenLogprob[];
  finishReason: 'stop' | 'length' | 'tool_calls';
  stoppedBy: 'budget' | undefined;
  promptTokenIds: readonly number[];
  tokenIds: number[];
}

/** Beside the reason why an answer ended. Left out when nothing else has cut it. */
export const stoppedByToWire = ({ stoppedBy }: { stoppedBy?: 'budget' | undefined }) =>
  stoppedBy === undefined ? {} : { stopped_by: stoppedBy };

const emptyChoice = (): CollectedChoice => ({
  text: '',
  reasoning: '',
  toolCalls: [],
  logprobs: [],
  finishReason: 'stop',
  stoppedBy: undefined,
  promptTokenIds: [],
  tokenIds: [],
});

function collect(choice: CollectedChoice, event: ChatEvent): void {
  if (event.tokenIds !== undefined) {
    if (event.type === 'start') choice.promptTokenIds = event.tokenIds;
    else choice.tokenIds.push(...event.tokenIds);
  }
  switch (event.type) {
    case 'text-delta':
      choice.text += event.text;
      if (event.logprobs !== undefined) choice.logprobs.push(...event.logprobs);
      break;
    case 'reasoning-delta':
      choice.reasoning += event.text;
      break;
    case 'tool-call-delta': {
      choice.toolCalls[event.index] ??= { id: event.id ?? '', name: event.name ?? '', arguments: '' };
      const call = choice.toolCalls[event.index] as CollectedChoice['toolCalls'][number];
      call.arguments += event.argumentsDelta;
      break;
    }
    case 'end':
      choice.finishReason = event.reason;
      choice.stoppedBy = event.stoppedBy;
      break;
  }
}

export interface ChoicesOptions {
  idPrefix: string;
  body: {
    model: string;
    stream?: boolean | null | undefined;
    stream_options?:
      | { include_usage?: boolean | null | undefined; continuous_usage_stats?: boolean | null | undefined }
      | null
      | undefined;
  };
  command: Pick<ChatCommand, 'choices' | 'prompts' | 'request'>;
  clock: Clock;
}

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/**
 * Answers with choices, as chat and completions have them. Streams are written event by event, and nothing of them is kept; other
 * answers are collected and written once.
 */
export abstract class ChoicesWriter<Answer> implements AnswerWriter<Answer> {
  protected readonly head: AnswerHead;
  protected readonly withUsage: boolean;
  protected readonly withLogprobs: boolean;
  protected readonly withTokenIds: boolean;
  /** Chunks have the usage so far. */
  readonly #countsEach: boolean;
  /** Undefined for a stream. */
  readonly #choices: CollectedChoice[] | undefined;
  #usage = NO_USAGE;

  constructor({ idPrefix, body, command, clock }: ChoicesOptions) {
    this.head = { id: createId(idPrefix), created: Math.floor(clock.now() / 1000), model: body.model };
    this.withUsage = body.stream_options?.include_usage === true;
    this.withLogprobs = command.request.logprobs !== undefined;
    this.withTokenIds = command.request.withTokenIds === true;
    this.#countsEach = command.request.countsEach === true;
    if (body.stream) return;
    // Not Array.from: without an iterator it takes V8's slow path, and nearly all requests have one choice.
    this.#choices = [emptyChoice()];
    const count = command.choices * (command.prompts?.length ?? 1);
    while (this.#choices.length < count) this.#choices.push(emptyChoice());
  }

  take(index: number, event: ChatEvent, used = NO_USAGE): string {
    if (this.#choices === undefined) return this.chunk(index, event, this.#usageBeside(used));
    const choice = this.#choices[index];
    if (choice !== undefined) collect(choice, event);
    return '';
  }

  /** The usage in a chunk. Undefined: it has none. */
  #usageBeside(used: TokenUsage): object | null | undefined {
    if (this.#countsEach) return usageToWire(used);
    return this.withUsage ? null : undefined;
  }

  end(usage: TokenUsage): string {
    this.#usage = usage;
    return `${this.withUsage ? this.usageChunk(usage) : ''}data: [DONE]\n\n`;
  }

  fail(error: ApiError): string {
    return errorEvent(error);
  }

  answer(): Answer {
    return this.whole(this.#choices ?? [], this.#usage);
  }

  /** The text of a stream for an event; empty if it has nothing to send. */
  protected abstract chunk(index: number, event: ChatEvent, usage: object | null | undefined): string;
  protected abstract usageChunk(usage: TokenUsage): string;
  protected abstract whole(choices: readonly CollectedChoice[], usage: TokenUsage): Answer;
}
