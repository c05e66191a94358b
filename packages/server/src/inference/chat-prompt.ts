import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { isHopelesslyLong, mostTokens, QUARTERS_PER_TOKEN, tokenQuarters } from '@baobab/core/domain/text-size.ts';
import type { ChatMessage, ChatRequest, ImageInput } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FieldPath } from '@baobab/core/errors/fields.ts';
import type { DocumentReference } from './inputs/documents.ts';
import type { ImageReference } from './inputs/images.ts';

export interface ChatCommand {
  model: string;
  /** Number of independent answers to each prompt. */
  choices: number;
  request: ChatRequest;
  /** Several prompts. The request has the first one. */
  prompts?: readonly ChatRequest['prompt'][] | undefined;
  /** A longer answer than the model can give is lowered, not refused. */
  lowersMaxTokens?: boolean | undefined;
  /** Images of the messages, in order. They are put into `request` when it is admitted. */
  images?: readonly PlacedImage[] | undefined;
  /** Files of the messages, in order. Their text is put into `request` when it is admitted. */
  documents?: readonly PlacedDocument[] | undefined;
}

/** One for each prompt. */
export const requestsOf = ({ request, prompts }: ChatCommand): readonly ChatRequest[] =>
  prompts === undefined ? [request] : prompts.map((prompt) => ({ ...request, prompt }));

export const countPrompts = ({ prompts }: Pick<ChatCommand, 'prompts'>): number => prompts?.length ?? 1;
/** Of all prompts. */
export const countChoices = (command: Pick<ChatCommand, 'choices' | 'prompts'>): number =>
  command.choices * countPrompts(command);

/** Where a message has a file. */
export interface Position {
  /** Index of the message. */
  message: number;
  /** How many characters of the message's text come before it. */
  at: number;
}

export interface PlacedImage extends ImageReference, Position {}
export interface PlacedDocument extends DocumentReference, Position {}

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
export function checkPromptSizes(entry: Pick<ModelEntry, 'contextLength'>, command: ChatCommand): void {
  for (const [index, request] of requestsOf(command).entries()) {
    checkPromptSize(entry, request, command.prompts === undefined ? ['prompt'] : ['prompt', index]);
  }
}

function checkPromptSize(
  { contextLength }: Pick<ModelEntry, 'contextLength'>,
  request: ChatRequest,
  field: FieldPath,
): void {
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
  if (tooLong) throw errors.contextFarTooLong(field, contextLength);
}

interface Insertion extends Position {
  found: string | ImageReference;
}

/** The command with the text of its documents in the messages. Documents that are images join the other images. */
export function withDocuments(command: ChatCommand, found: readonly (string | ImageReference)[]): ChatCommand {
  const { documents = [], request, images = [] } = command;
  if (documents.length === 0 || !('messages' in request.prompt)) return command;
  const insertions = documents.flatMap(({ message, at }, index): Insertion[] => {
    const content = found[index];
    return content === undefined ? [] : [{ message, at, found: content }];
  });
  /** Characters that are inserted before a position. */
  const addedBefore = (message: number, at: number): number =>
    insertions.reduce(
      (sum, each) =>
        each.message === message && each.at <= at && typeof each.found === 'string' ? sum + each.found.length : sum,
      0,
    );
  const messages = request.prompt.messages.map((message, index) => {
    const own = insertions.filter((each) => each.message === index);
    if (own.length === 0) return message;
    let content = '';
    let taken = 0;
    for (const { at, found: inserted } of own) {
      if (typeof inserted !== 'string') continue;
      content += message.content.slice(taken, at) + inserted;
      taken = at;
    }
    return { ...message, content: content + message.content.slice(taken) };
  });
  const added = insertions.flatMap(({ found: image, ...position }) =>
    typeof image === 'string' ? [] : [{ ...image, ...position }],
  );
  const placed = [...images, ...added]
    .toSorted((a, b) => a.message - b.message || a.at - b.at)
    .map((image) => ({ ...image, at: image.at + addedBefore(image.message, image.at) }));
  return { ...command, documents: undefined, request: { ...request, prompt: { messages } }, images: placed };
}

/** The request with the content of its images, which come in the same order. */
export function withImages({ request, images = [] }: ChatCommand, loaded: readonly ImageInput[]): ChatRequest {
  if (loaded.length === 0 || !('messages' in request.prompt)) return request;
  const messages = request.prompt.messages.map((message, index) => {
    const own = images.flatMap(({ message: owner, at }, i) => {
      const image = loaded[i];
      return owner === index && image !== undefined ? [{ ...image, at }] : [];
    });
    return own.length === 0 ? message : { ...message, images: own };
  });
  return { ...request, prompt: { messages } };
}
