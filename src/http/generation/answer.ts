import type { ChatEvent, TokenLogprob, TokenUsage } from '../../engines/engine.ts';
import type { ChatCommand, ChatService } from '../../inference/chat.ts';
import type { InferenceCall } from '../../inference/pipeline.ts';
import type { Clock } from '../../ports/clock.ts';
import { createId } from '../../runtime/ids.ts';

export interface AnswerHead {
  id: string;
  created: number;
  model: string;
}

export const answerHead = (prefix: string, model: string, clock: Clock): AnswerHead => ({
  id: createId(prefix),
  created: Math.floor(clock.now() / 1000),
  model,
});

export const usageToWire = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens },
  cache_read_tokens: cachedTokens,
});

export interface CollectedChoice {
  text: string;
  reasoning: string;
  toolCalls: { id: string; name: string; arguments: string }[];
  logprobs: TokenLogprob[];
  finishReason: 'stop' | 'length' | 'tool_calls';
}

/** Collects the events of one choice for an answer that is not streamed. */
export function createCollector(): { choice: CollectedChoice; take(event: ChatEvent): void } {
  const choice: CollectedChoice = { text: '', reasoning: '', toolCalls: [], logprobs: [], finishReason: 'stop' };
  return {
    choice,
    take(event) {
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
          break;
      }
    },
  };
}

/** Runs a generation to its end. */
export async function collectChoices(chat: ChatService, call: InferenceCall, command: ChatCommand) {
  // Not Array.from: without an iterator it takes V8's slow path, and nearly all requests have one choice.
  const collectors = [createCollector()];
  while (collectors.length < command.choices) collectors.push(createCollector());
  const whole = { ...command, request: { ...command.request, wholeAnswer: true } };
  const usage = await chat.generate(call, whole, (choice, event) => collectors[choice]?.take(event));
  return { choices: collectors.map(({ choice }) => choice), usage };
}

/** Writes events as the text of a stream; an empty text where an event has nothing to send. */
export interface ChunkWriter {
  event(choice: number, event: ChatEvent): string;
  usage(usage: TokenUsage): string;
}

export interface ChunkOptions {
  withUsage: boolean;
  withLogprobs: boolean;
}
