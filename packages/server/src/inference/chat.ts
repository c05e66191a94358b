import type { ResolvedModel } from '@baobab/core/domain/model.ts';
import type {
  CallContext,
  ChatCapability,
  ChatEvent,
  ChatRequest,
  GenerationSink,
  TokenUsage,
} from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { cancellation } from '@baobab/core/errors/cancellation.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { DocumentsService } from './inputs/documents.ts';
import type { CheckedImage, ImageReference, ImagesService } from './inputs/images.ts';
import { type PlacedDocument, withDocuments } from './inputs/placement.ts';
import type { InferenceCall, InferenceEstimate, InferenceService, InferenceSession } from './pipeline.ts';
import { checkPromptSize, estimatePromptTokens, fewestPromptTokens } from './prompt-size.ts';

export interface ChatCommand {
  model: string;
  /** Number of independent answers. */
  choices: number;
  request: ChatRequest;
  /** A longer answer than the model can give is lowered, not refused. */
  lowersMaxTokens?: boolean | undefined;
  /** Images of the messages, in order. They are put into `request` when it is admitted. */
  images?: readonly PlacedReference[] | undefined;
  /** Files of the messages, in order. Their text is put into `request` before it is admitted, so that the limits count it. */
  documents?: readonly PlacedDocument[] | undefined;
}

export interface PlacedReference extends ImageReference {
  /** Index of the message. */
  message: number;
  /** How many characters of the message's text come before it. */
  at: number;
}

/** Keeps one request from taking all slots of a small engine. */
const CHOICES_AT_ONCE = 2;

/** A slow client makes it return a promise, for which its choice waits. */
export type SendText = (text: string) => void | Promise<void>;

/** Gets the events of each choice in order. A choice waits for the returned promise. `withheld`: the client gets nothing of the event. */
export type ChatSink = (choice: number, event: ChatEvent) => void | 'withheld' | Promise<void>;

/** Writes the answer of a generation in the format of an API. */
export interface AnswerWriter<Answer> {
  /** The text of the stream for an event of a choice. Empty: the client gets nothing of it. */
  take(choice: number, event: ChatEvent): string;
  /** Fills in the usage. Returns the end of the stream. */
  end(usage: TokenUsage): string;
  /** The end of a stream that has failed. */
  fail(error: ApiError, requestId: string): string;
  /** The answer in one piece, after `end`. */
  answer(): Answer;
}

export interface ChatService {
  /** Throws what `generate` would throw at once, whatever else is running. Does not read files and ignores outages. */
  check(caller: Pick<InferenceCall, 'principal' | 'regionPin'>, command: ChatCommand): void;
  /** Generates an answer that is sent in one piece. Resolves when its usage is durable. */
  answer<Answer>(call: InferenceCall, command: ChatCommand, writer: AnswerWriter<Answer>): Promise<Answer>;
  /** Sends the text of every event as it is written. Resolves with the last text, when the usage is durable. */
  stream(call: InferenceCall, command: ChatCommand, writer: AnswerWriter<unknown>, send: SendText): Promise<string>;
  /** What `answer` and `stream` are made of. Resolves with the usage when every choice has ended and the usage is durable. */
  generate(call: InferenceCall, command: ChatCommand, sink: ChatSink): Promise<TokenUsage>;
  /** The tokens of the prompt with the model's own tokenizer and template. Takes part in the request limits and costs nothing. */
  countTokens(call: InferenceCall, command: ChatCommand): Promise<number>;
}

/** Few answers without a limit are longer. */
const UNBOUNDED_ANSWER_TOKENS = 1_024;

const estimatePrompt = (request: ChatRequest, images: readonly CheckedImage[]): number =>
  images.reduce((sum, { tokens }) => sum + tokens, estimatePromptTokens(request));

/**
 * Used until the engine has counted. The prompt is estimated from its characters. The estimate is too high for some texts, and no prompt
 * uses more than the context. Few clients use all of `maxTokens`, so the token limit takes a quarter of it; a budget must hold even if
 * they do, and even if the answer is as long as the model can give.
 */
function estimateOf(
  { request, choices }: ChatCommand,
  { entry }: ResolvedModel,
  images: readonly CheckedImage[],
): InferenceEstimate {
  const promptTokens = Math.min(estimatePrompt(request, images), entry.contextLength);
  const longest = entry.maxOutputTokens ?? entry.contextLength;
  const answer = (tokens: number) => Math.min(request.maxTokens ?? tokens, longest) * choices;
  return {
    tokens: promptTokens + Math.ceil(answer(UNBOUNDED_ANSWER_TOKENS) / 4),
    used: { promptTokens, completionTokens: answer(longest) },
  };
}

/** The request with the content of its images. */
async function withImages(
  { request, images = [] }: ChatCommand,
  checked: readonly CheckedImage[],
): Promise<ChatRequest> {
  if (checked.length === 0 || !('messages' in request.prompt)) return request;
  const loaded = await Promise.all(checked.map(({ load }) => load()));
  const messages = request.prompt.messages.map((message, index) => {
    const own = images.flatMap(({ message: owner, at }, i) => {
      const image = loaded[i];
      return owner === index && image !== undefined ? [{ ...image, at }] : [];
    });
    return own.length === 0 ? message : { ...message, images: own };
  });
  return { ...request, prompt: { messages } };
}

/** Programs ask for the longest answer of another model. What does not fit beside the prompt is left to the engine. */
function lowerMaxTokens({ entry }: ResolvedModel, request: ChatRequest): ChatRequest {
  const { contextLength, maxOutputTokens } = entry;
  const maxTokens = Math.min(request.maxTokens ?? contextLength, maxOutputTokens ?? contextLength);
  const fits = maxTokens + fewestPromptTokens(request) <= contextLength;
  return { ...request, maxTokens: fits ? maxTokens : undefined };
}

function checkCapabilities({ entry }: ResolvedModel, { request, images = [] }: ChatCommand): void {
  const { capabilities, slug } = entry;
  const [image] = images;
  if (image !== undefined && !capabilities.vision) {
    throw errors.unsupportedParameter(image.field, `The model '${slug}' takes text only, no images.`);
  }
  if (request.tools !== undefined && request.tools.length > 0 && !capabilities.tools) {
    throw errors.unsupportedParameter(['tools'], `The model '${slug}' cannot call tools.`);
  }
  if (request.format?.type === 'json_object' && !capabilities.jsonMode) {
    throw errors.unsupportedParameter(['format'], `The model '${slug}' has no JSON mode.`);
  }
  if (request.format?.type === 'json_schema' && !capabilities.structuredOutput) {
    throw errors.unsupportedParameter(['format'], `The model '${slug}' cannot be held to a JSON schema.`);
  }
  const { maxTokens } = request;
  if (maxTokens !== undefined && entry.maxOutputTokens !== null && maxTokens > entry.maxOutputTokens) {
    throw new ApiError(
      'context_length_exceeded',
      fieldText`${['maxTokens']} is ${maxTokens}, but the model '${slug}' writes at most ${entry.maxOutputTokens} tokens.`,
      { field: ['maxTokens'] },
    );
  }
}

const NO_USAGE: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };

/** The prompt is billed once for all choices. */
function addUp(usages: readonly TokenUsage[]): TokenUsage {
  return {
    promptTokens: Math.max(0, ...usages.map((usage) => usage.promptTokens)),
    completionTokens: usages.reduce((sum, usage) => sum + usage.completionTokens, 0),
    cachedTokens: usages[0]?.cachedTokens ?? 0,
  };
}

const consumption = ({ promptTokens, completionTokens, cachedTokens }: TokenUsage) => ({
  promptTokens,
  completionTokens,
  cacheReadTokens: Math.min(cachedTokens, promptTokens),
});

interface RunOptions {
  call: InferenceCall;
  session: InferenceSession;
  request: ChatRequest;
  choices: number;
  sink: ChatSink;
}

class Choice implements GenerationSink {
  readonly deliver: GenerationSink['deliver'];
  usage: TokenUsage = NO_USAGE;
  servedRegion: string | undefined;

  constructor(deliver: GenerationSink['deliver']) {
    this.deliver = deliver;
  }

  used(usage: TokenUsage, servedRegion?: string): void {
    this.usage = usage;
    this.servedRegion = servedRegion;
  }
}

/** All choices of one admitted request. A class: thousands of streams may be open. */
class ChatRun {
  readonly #chat: ChatCapability;
  readonly #options: RunOptions;
  readonly #choices: Choice[] = [];
  #firstTokenMs: number | undefined;
  #isDelivered = false;

  constructor(chat: ChatCapability, options: RunOptions) {
    this.#chat = chat;
    this.#options = options;
  }

  async run(): Promise<TokenUsage> {
    const { call, session, request, choices } = this.#options;
    try {
      await (choices === 1 ? this.#pump(0, request, session.context) : this.#pumpAll());
    } catch (error) {
      // Usage is final only now, and no more events are written.
      const used = addUp(this.#choices.map(({ usage }) => usage));
      const cancelled = call.signal.aborted ? cancellation(call.signal) : undefined;
      // A client that leaves pays for what it caused, one that gets an error only for what came before it.
      const isBilled = cancelled?.code === 'client_cancelled' ? used.promptTokens > 0 : this.#isDelivered;
      if (isBilled) {
        const status = cancelled?.status ?? (error instanceof ApiError ? error.status : 500);
        await session.settle(consumption(used), this.#details(status));
      }
      throw cancelled ?? error;
    }
    const usage = addUp(this.#choices.map(({ usage }) => usage));
    await session.settle(consumption(usage), this.#details());
    return usage;
  }

  /** If one choice fails, the others are stopped. A combined signal is costly, and a single choice has no others. */
  async #pumpAll(): Promise<void> {
    const { session, request, choices } = this.#options;
    const stop = new AbortController();
    const context = { ...session.context, signal: AbortSignal.any([session.context.signal, stop.signal]) };
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < choices && !stop.signal.aborted) {
        const choice = next++;
        // Choices differ only in their seed; without one, each engine call picks a random one.
        const seed = request.seed === undefined ? undefined : request.seed + choice;
        await this.#pump(choice, { ...request, seed }, context);
      }
    };
    const lanes = Array.from({ length: Math.min(choices, CHOICES_AT_ONCE) }, lane);
    try {
      await Promise.all(lanes);
    } catch (error) {
      stop.abort(error);
      await Promise.allSettled(lanes);
      throw error;
    }
  }

  #pump(choice: number, request: ChatRequest, context: CallContext): Promise<void> {
    const own = new Choice((event) => this.#take(choice, request, event));
    this.#choices.push(own);
    return this.#chat.generate(request, context, own);
  }

  #take(choice: number, { wholeAnswer }: ChatRequest, event: ChatEvent): void | Promise<void> {
    const { session, sink } = this.#options;
    if (event.type !== 'start') this.#firstTokenMs ??= session.elapsedMs();
    const sent = sink(choice, event);
    if (sent === 'withheld') return;
    if (event.type === 'start') return sent;
    if (sent instanceof Promise) return sent.then(() => this.#delivered(wholeAnswer));
    this.#delivered(wholeAnswer);
  }

  #delivered(wholeAnswer: boolean | undefined): void {
    this.#isDelivered = !wholeAnswer;
  }

  #details(status?: number) {
    const region = this.#choices.find(({ servedRegion }) => servedRegion !== undefined)?.servedRegion;
    return { status, region, firstTokenMs: this.#firstTokenMs };
  }
}

export interface ChatDependencies {
  inference: InferenceService;
  images: ImagesService;
  documents: DocumentsService;
}

export function createChat({ inference, images, documents }: ChatDependencies): ChatService {
  async function readDocuments(call: InferenceCall, command: ChatCommand): Promise<ChatCommand> {
    const { documents: references = [] } = command;
    return references.length === 0 ? command : withDocuments(command, await documents.read(call, references));
  }

  const service: ChatService = {
    async answer(call, command, writer) {
      const whole = { ...command, request: { ...command.request, wholeAnswer: true } };
      writer.end(await service.generate(call, whole, (choice, event) => void writer.take(choice, event)));
      return writer.answer();
    },

    stream(call, command, writer, send) {
      const write: ChatSink = (choice, event) => {
        const text = writer.take(choice, event);
        return text === '' ? 'withheld' : send(text);
      };
      return service.generate(call, command, write).then((usage) => writer.end(usage));
    },

    check(caller, command) {
      try {
        const model = inference.resolve(caller, command.model, 'chat');
        checkCapabilities(model, command);
        checkPromptSize(model.entry, command.request);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status < 500) throw error;
      }
    },

    async generate(call, given, sink) {
      const model = inference.resolve(call, given.model, 'chat');
      const read = given.documents === undefined ? given : await readDocuments(call, given);
      const command = read.lowersMaxTokens ? { ...read, request: lowerMaxTokens(model, read.request) } : read;
      const { choices } = command;
      checkCapabilities(model, command);
      checkPromptSize(model.entry, command.request);
      const { images: references = [] } = command;
      const checked = references.length === 0 ? [] : await images.check(call.principal.account.id, references);
      const estimate = estimateOf(command, model, checked);
      // `await`: an async function that returns a promise waits for it three turns longer.
      return await inference.run(call, { model, estimate }, (session) => {
        const { chat } = session.engine;
        if (chat === undefined) throw errors.modelUnavailable(model.entry.slug, 'its engine cannot chat');
        const run = (request: ChatRequest) => new ChatRun(chat, { call, session, request, choices, sink }).run();
        if (checked.length === 0) return run(command.request);
        return images.hold(call.principal.account.id, checked, () => withImages(command, checked).then(run));
      });
    },

    async countTokens(call, given) {
      const model = inference.resolve(call, given.model, 'chat');
      const command = await readDocuments(call, given);
      checkPromptSize(model.entry, command.request);
      const { images: references = [] } = command;
      const checked = references.length === 0 ? [] : await images.check(call.principal.account.id, references);
      return inference.run(call, { model, estimate: { tokens: 0, used: {} } }, async ({ engine, context }) => {
        const { chat } = engine;
        if (chat === undefined) throw errors.modelUnavailable(model.entry.slug, 'its engine cannot chat');
        const counted = await images.hold(call.principal.account.id, checked, async () =>
          chat.countTokens?.(await withImages(command, checked), context),
        );
        return counted ?? estimatePrompt(command.request, checked);
      });
    },
  };
  return service;
}
