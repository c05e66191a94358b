import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { isHopelesslyLong, mostTokens, QUARTERS_PER_TOKEN, tokenQuarters } from '@baobab/core/domain/text-size.ts';
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

/** What a template adds to each message. */
const MESSAGE_OVERHEAD_TOKENS = 4;

/** In the units of the measure, of which a token has `perToken`. */
function sizeOf({ prompt, tools, toolChoice, format, stop }: ChatRequest, measure: Measure, perToken: number): number {
  let size = 0;
  if ('text' in prompt) size = measure(prompt.text);
  else if ('tokens' in prompt) size = prompt.tokens.length * perToken;
  else {
    size = sumOfMessages(prompt.messages, measure) + prompt.messages.length * MESSAGE_OVERHEAD_TOKENS * perToken;
  }
  for (const part of [tools, toolChoice, format, stop]) {
    if (part !== undefined) size += measure(JSON.stringify(part));
  }
  return size;
}

const inTokens = (quarters: number): number => Math.ceil(quarters / QUARTERS_PER_TOKEN);

/** An estimate from the characters of everything that is sent to the engine: what is not counted could be used to pass a limit. */
export const reservedPromptTokens = (request: ChatRequest): number =>
  inTokens(sizeOf(request, tokenQuarters, QUARTERS_PER_TOKEN));

/** As if all of it were English: few prompts have less. */
export const fewestPromptTokens = (request: ChatRequest): number =>
  inTokens(sizeOf(request, charactersOf, QUARTERS_PER_TOKEN));

/** The most that common templates add to a message: its role, its name and marks around them. */
const MOST_MESSAGE_TOKENS = 16;

/** No tokenizer makes more of what the client has sent. */
export const mostPromptTokens = (request: ChatRequest): number =>
  sizeOf(request, mostTokens, 1) +
  ('messages' in request.prompt ? request.prompt.messages.length * MOST_MESSAGE_TOKENS : 0);

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
