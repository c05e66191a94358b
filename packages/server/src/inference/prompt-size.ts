import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { isHopelesslyLong, QUARTERS_PER_TOKEN, tokenQuarters } from '@baobab/core/domain/text-size.ts';
import type { ChatMessage, ChatRequest } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';

const MAX_MESSAGES = 10_000;

const jsonCharacters = (value: unknown): number => (value === undefined ? 0 : JSON.stringify(value).length);

type Measure = (text: string) => number;
const charactersOf: Measure = ({ length }) => length;

function sumOfMessages(messages: readonly ChatMessage[], measure: Measure): number {
  let sum = 0;
  for (const { content, name = '', reasoning = '', toolCallId = '', toolCalls = [] } of messages) {
    sum += measure(content) + measure(name) + measure(reasoning) + measure(toolCallId);
    for (const call of toolCalls) sum += measure(call.id) + measure(call.name) + measure(call.arguments);
  }
  return sum;
}

/** What a template adds to each message: four tokens. */
const MESSAGE_OVERHEAD_QUARTERS = 16;

function promptQuarters(prompt: ChatRequest['prompt'], measure: Measure): number {
  if ('text' in prompt) return measure(prompt.text);
  if ('tokens' in prompt) return prompt.tokens.length * QUARTERS_PER_TOKEN;
  return sumOfMessages(prompt.messages, measure) + prompt.messages.length * MESSAGE_OVERHEAD_QUARTERS;
}

/** An estimate from the characters of everything that is sent to the engine: what is not counted could be used to pass a budget. */
export const reservedPromptTokens = (request: ChatRequest): number => promptTokens(request, tokenQuarters);

/** As if all of it were English: few prompts have less. */
export const fewestPromptTokens = (request: ChatRequest): number => promptTokens(request, charactersOf);

function promptTokens({ prompt, tools, toolChoice, format, stop }: ChatRequest, measure: Measure): number {
  let quarters = promptQuarters(prompt, measure);
  for (const part of [tools, toolChoice, format, stop]) {
    if (part !== undefined) quarters += measure(JSON.stringify(part));
  }
  return Math.ceil(quarters / QUARTERS_PER_TOKEN);
}

/** Refuses prompts that cannot fit before they are queued: just tokenizing them would delay the requests of others. */
export function checkPromptSize({ contextLength }: Pick<ModelEntry, 'contextLength'>, request: ChatRequest): void {
  const { prompt } = request;
  if (isHopelesslyLong(jsonCharacters(request.tools), contextLength))
    throw errors.contextFarTooLong(['tools'], contextLength);
  if ('messages' in prompt) {
    const { messages } = prompt;
    // Every message has at least one token.
    if (messages.length > contextLength || isHopelesslyLong(sumOfMessages(messages, charactersOf), contextLength)) {
      throw errors.contextFarTooLong(['messages'], contextLength);
    }
    if (messages.length > MAX_MESSAGES) throw errors.tooManyInputs(['messages'], messages.length, MAX_MESSAGES);
    return;
  }
  const tooLong =
    'text' in prompt ? isHopelesslyLong(prompt.text.length, contextLength) : prompt.tokens.length > contextLength;
  if (tooLong) throw errors.contextFarTooLong(['prompt'], contextLength);
}
