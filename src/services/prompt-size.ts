import type { ModelEntry } from '../domain/model.ts';
import { CHARACTERS_PER_TOKEN, estimateTokens, isHopelesslyLong } from '../domain/text-size.ts';
import type { ChatMessage, ChatRequest } from '../engines/engine.ts';
import { errors } from '../errors/errors.ts';

const MAX_MESSAGES = 10_000;

const jsonCharacters = (value: unknown): number => (value === undefined ? 0 : JSON.stringify(value).length);

const callCharacters = (calls: ChatMessage['toolCalls'] = []): number =>
  calls.reduce((sum, call) => sum + call.id.length + call.name.length + call.arguments.length, 0);

const messageCharacters = (messages: readonly ChatMessage[]): number =>
  messages.reduce(
    (sum, { content, name = '', reasoning = '', toolCallId = '', toolCalls }) =>
      sum + content.length + name.length + reasoning.length + toolCallId.length + callCharacters(toolCalls),
    0,
  );

/** What a template adds to each message. */
const MESSAGE_OVERHEAD_CHARACTERS = 16;

function textCharacters(prompt: ChatRequest['prompt']): number {
  if ('text' in prompt) return prompt.text.length;
  if ('tokens' in prompt) return prompt.tokens.length * CHARACTERS_PER_TOKEN;
  return messageCharacters(prompt.messages) + prompt.messages.length * MESSAGE_OVERHEAD_CHARACTERS;
}

/** An estimate from the characters of everything that is sent to the engine: what is not counted could be used to pass a budget. */
export function estimatePromptTokens({ prompt, tools, toolChoice, format, stop }: ChatRequest): number {
  const characters = [tools, toolChoice, format, stop].reduce<number>(
    (sum, part) => sum + jsonCharacters(part),
    textCharacters(prompt),
  );
  return estimateTokens(characters);
}

/** Refuses prompts that cannot fit before they are queued: just tokenizing them would delay the requests of others. */
export function checkPromptSize({ contextLength }: Pick<ModelEntry, 'contextLength'>, request: ChatRequest): void {
  const { prompt } = request;
  if (isHopelesslyLong(jsonCharacters(request.tools), contextLength))
    throw errors.contextFarTooLong(['tools'], contextLength);
  if ('messages' in prompt) {
    const { messages } = prompt;
    // Every message has at least one token.
    if (messages.length > contextLength || isHopelesslyLong(messageCharacters(messages), contextLength)) {
      throw errors.contextFarTooLong(['messages'], contextLength);
    }
    if (messages.length > MAX_MESSAGES) throw errors.tooManyInputs(['messages'], messages.length, MAX_MESSAGES);
    return;
  }
  const tooLong =
    'text' in prompt ? isHopelesslyLong(prompt.text.length, contextLength) : prompt.tokens.length > contextLength;
  if (tooLong) throw errors.contextFarTooLong(['prompt'], contextLength);
}
