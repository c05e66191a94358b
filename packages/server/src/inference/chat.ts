import { MAX_IMAGE_TOKENS, UNKNOWN_IMAGE_TOKENS } from '@baobab/core/domain/image.ts';
import type { ModelEntry, ResolvedModel } from '@baobab/core/domain/model.ts';
import { MOST_TEMPLATE_TOKENS } from '@baobab/core/domain/text-size.ts';
import type { ChatEvent, ChatRequest, TokenUsage } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Caller, InferenceCall } from './call.ts';
import {
  type ChatCommand,
  checkPromptSizes,
  countChoices,
  countPrompts,
  fewestPromptTokens,
  mostPromptTokens,
  requestsOf,
  reservedPromptTokens,
  withDocuments,
  withImages,
} from './chat-prompt.ts';
import { type ChatJsonSink, ChatRun, type ChatSink, STEP_TOKENS } from './chat-run.ts';
import type { DocumentsService } from './inputs/documents.ts';
import { type CheckedImage, checkVision, type ImagesService, type LoadedImages } from './inputs/images.ts';
import type { BilledWork, Bounds, InferenceService } from './pipeline.ts';
import type { InferenceSession } from './session.ts';

/** A slow client makes it return a promise, for which its choice waits. */
export type SendText = (text: string) => void | Promise<void>;

/** Writes the answer of a generation in the format of an API. */
export interface AnswerWriter<Answer> {
  /** The text of the stream for an event of a choice. Empty: the client gets nothing of it. */
  take(choice: number, event: ChatEvent, used?: TokenUsage): string;
  /** The same for a text as JSON that came without anything else. Undefined: the answer is written from events only. */
  takeJson?(choice: number, text: string): string;
  /** Fills in the usage. Returns the end of the stream. */
  end(usage: TokenUsage): string;
  /** The end of a stream that has failed. */
  fail(error: ApiError, requestId: string): string;
  /** The answer in one piece, after `end`. */
  answer(): Answer;
}

export interface ChatService {
  /** Throws what `generate` would throw at once, whatever else is running. Does not read files and ignores outages. */
  check(caller: Caller, command: ChatCommand): void;
  /** Generates an answer that is sent in one piece. Resolves when its usage is durable. */
  answer<Answer>(call: InferenceCall, command: ChatCommand, writer: AnswerWriter<Answer>): Promise<Answer>;
  /** Sends the text of every event as it is written. Resolves with the last text, when the usage is durable. */
  stream(call: InferenceCall, command: ChatCommand, writer: AnswerWriter<unknown>, send: SendText): Promise<string>;
  /** What `answer` and `stream` are made of. Resolves with the usage when every choice has ended and the usage is durable. */
  generate(
    call: InferenceCall,
    command: ChatCommand,
    sink: ChatSink,
    jsonSink?: ChatJsonSink | undefined,
  ): Promise<TokenUsage>;
  /** The tokens of the prompt with the model's own tokenizer and template. Takes part in the request limits and costs nothing. */
  countTokens(call: InferenceCall, command: ChatCommand): Promise<number>;
}

/** Few answers without a limit are longer. */
const UNBOUNDED_ANSWER_TOKENS = 1_024;

/** Programs ask for the longest answer of another model. What does not fit beside the prompt is left to the engine. */
function lowerMaxTokens({ contextLength, maxOutputTokens }: ModelEntry, request: ChatRequest): ChatRequest {
  const maxTokens = Math.min(request.maxTokens ?? contextLength, maxOutputTokens ?? contextLength);
  const fits = maxTokens + fewestPromptTokens(request) <= contextLength;
  return { ...request, maxTokens: fits ? maxTokens : undefined };
}

function checkCapabilities(entry: ModelEntry, { request, images = [] }: ChatCommand): void {
  const { capabilities, slug } = entry;
  checkVision(entry, images);
  if (request.tools !== undefined && request.tools.length > 0 && !capabilities.tools) {
    throw errors.unsupportedParameter(['tools'], `The model '${slug}' cannot call tools.`);
  }
  if (request.format?.type === 'json_object' && !capabilities.jsonMode) {
    throw errors.unsupportedParameter(['format'], `The model '${slug}' has no JSON mode.`);
  }
  const type = request.format?.type ?? 'text';
  if (type !== 'text' && type !== 'json_object' && !capabilities.structuredOutput) {
    const what = type === 'json_schema' ? 'a JSON schema' : `a ${type}`;
    throw errors.unsupportedParameter(['format'], `The model '${slug}' cannot be held to ${what}.`);
  }
  if (type !== 'text' && request.answerStart === 'continued') {
    throw errors.unsupportedParameter(
      ['format'],
      fieldText`${['format']} cannot be kept by an answer that continues a message. Leave ${['answerStart']} or ${['format']} out.`,
    );
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

const longestAnswer = ({ contextLength, maxOutputTokens }: ModelEntry): number => maxOutputTokens ?? contextLength;

export interface PromptReaders {
  images: ImagesService;
  documents: DocumentsService;
}

const NO_IMAGES: readonly CheckedImage[] = [];
const NOT_LOADED: LoadedImages['inputs'] = [];

/** What is done with the prompt of a chat, and the files that its messages name. A class: thousands of streams may be open. */
abstract class ChatPrompt<Result> implements BilledWork<Result> {
  readonly modality = 'chat';
  readonly model: string;
  /** As far as it is known: the documents are missing until they are read. */
  protected command: ChatCommand;
  protected readonly call: InferenceCall;
  readonly #readers: PromptReaders;
  /** As the client sent it. */
  #sent: ChatCommand;
  #images = NO_IMAGES;
  #loaded = NOT_LOADED;

  constructor(readers: PromptReaders, call: InferenceCall, command: ChatCommand) {
    this.model = command.model;
    this.command = command;
    this.call = call;
    this.#readers = readers;
    this.#sent = command;
  }

  /** Throws if the model cannot take the command, and may change it. Called again with the text of its documents. */
  protected abstract fitted(entry: ModelEntry, command: ChatCommand): ChatCommand;
  protected abstract bounds(entry: ModelEntry): Bounds;
  abstract run(session: InferenceSession): Promise<Result>;

  bound({ entry }: ResolvedModel): Bounds {
    this.command = this.fitted(entry, this.#sent);
    return this.bounds(entry);
  }

  /** Returns no promise when there is nothing to read. */
  read({ entry }: ResolvedModel): Promise<Disposable> | undefined {
    const { documents = [], images = [] } = this.#sent;
    return documents.length > 0 || images.length > 0 ? this.#readFiles(entry) : undefined;
  }

  /** What the engine gets for each prompt. */
  protected requests(): readonly ChatRequest[] {
    return requestsOf({ ...this.command, request: withImages(this.command, this.#loaded) });
  }

  /** For the token limit. Images that are not read yet count as those of unknown size, documents as nothing. */
  protected estimatedTokens(): number {
    const { images = [] } = this.command;
    let sum = 0;
    for (const request of requestsOf(this.command)) sum += reservedPromptTokens(request);
    if (this.#images.length === 0) sum += images.length * UNKNOWN_IMAGE_TOKENS;
    for (const { tokens } of this.#images) sum += tokens;
    return sum;
  }

  /** For budgets: no prompt of this text and so many images has more. */
  protected mostTokens(): number {
    const { images = [] } = this.command;
    let sum = images.length * MAX_IMAGE_TOKENS;
    for (const request of requestsOf(this.command)) sum += mostPromptTokens(request);
    return sum;
  }

  async #readFiles(entry: ModelEntry): Promise<Disposable> {
    const { documents = [] } = this.#sent;
    if (documents.length > 0) {
      this.#sent = withDocuments(this.#sent, await this.#readers.documents.read(this.call, documents));
      this.fitted(entry, this.#sent);
    }
    const { images = [] } = this.#sent;
    const accountId = this.call.principal.account.id;
    this.#images = await this.#readers.images.check(accountId, images);
    const loaded = await this.#readers.images.load(accountId, this.#images);
    this.#loaded = loaded.inputs;
    return loaded;
  }
}

class Generation extends ChatPrompt<TokenUsage> {
  readonly #sink: ChatSink;
  readonly #jsonSink: ChatJsonSink | undefined;
  #most = 0;

  constructor(
    readers: PromptReaders,
    call: InferenceCall,
    command: ChatCommand,
    sink: ChatSink,
    jsonSink: ChatJsonSink | undefined,
  ) {
    super(readers, call, command);
    this.#sink = sink;
    this.#jsonSink = jsonSink;
  }

  protected fitted(entry: ModelEntry, sent: ChatCommand): ChatCommand {
    const command = sent.lowersMaxTokens ? { ...sent, request: lowerMaxTokens(entry, sent.request) } : sent;
    checkCapabilities(entry, command);
    checkPromptSizes(entry, command);
    return command;
  }

  /** Used until the engine has counted. Few clients use all of `maxTokens`, so the token limit takes a quarter of it. */
  protected bounds(entry: ModelEntry): Bounds {
    const { contextLength } = entry;
    const { maxTokens } = this.command.request;
    const prompts = countPrompts(this.command);
    const answer = (tokens: number) => Math.min(maxTokens ?? tokens, longestAnswer(entry)) * countChoices(this.command);
    this.#most = answer(contextLength);
    return {
      tokens:
        Math.min(this.estimatedTokens(), contextLength * prompts) + Math.ceil(answer(UNBOUNDED_ANSWER_TOKENS) / 4),
      most: {
        promptTokens: Math.min(this.mostTokens() + MOST_TEMPLATE_TOKENS * prompts, contextLength * prompts),
        completionTokens: this.#most,
      },
    };
  }

  /**
   * What a budget must hold before the answer begins: the longest one that the client has asked for. If it has not, or its program asks for
   * the longest answer of any model, the answer is reserved in steps as it is written. Instructions of the template are asked for when
   * an engine here has counted the prompt, or at the end of an upstream's answer: few models have them.
   */
  reserve({ entry }: ResolvedModel) {
    const { request, lowersMaxTokens } = this.command;
    const longest = Math.min(request.maxTokens ?? Number.POSITIVE_INFINITY, longestAnswer(entry));
    const most = longest * countChoices(this.command);
    const isOpen = request.maxTokens === undefined || lowersMaxTokens;
    return {
      promptTokens: Math.min(this.mostTokens(), entry.contextLength * countPrompts(this.command)),
      completionTokens: isOpen ? Math.min(STEP_TOKENS, most) : most,
    };
  }

  run(session: InferenceSession): Promise<TokenUsage> {
    const { choices } = this.command;
    const options = {
      call: this.call,
      sink: this.#sink,
      jsonSink: this.#jsonSink,
      requests: this.requests(),
      choices,
      most: this.#most,
    };
    return new ChatRun(session, options).run();
  }
}

class PromptCount extends ChatPrompt<number> {
  protected fitted(entry: ModelEntry, sent: ChatCommand): ChatCommand {
    checkPromptSizes(entry, sent);
    return sent;
  }

  protected bounds(): Bounds {
    return { tokens: 0, most: {} };
  }

  async run(session: InferenceSession): Promise<number> {
    const [request = this.command.request] = this.requests();
    const counted = await session.capability('chat').countTokens?.(request, session.context);
    return counted ?? this.estimatedTokens();
  }
}

export interface ChatDependencies extends PromptReaders {
  inference: Pick<InferenceService, 'resolve' | 'run'>;
}

export function createChat({ inference, ...readers }: ChatDependencies): ChatService {
  const service: ChatService = {
    async answer(call, command, writer) {
      const whole = { ...command, request: { ...command.request, wholeAnswer: true } };
      writer.end(await service.generate(call, whole, (...taken) => void writer.take(...taken)));
      return writer.answer();
    },

    stream(call, command, writer, send) {
      const write: ChatSink = (...taken) => {
        const text = writer.take(...taken);
        return text === '' ? 'withheld' : send(text);
      };
      const takesJson = writer.takeJson !== undefined && command.request.countsEach !== true;
      const writeJson: ChatJsonSink = (...taken) => send(writer.takeJson?.(...taken) ?? '');
      return service
        .generate(call, command, write, takesJson ? writeJson : undefined)
        .then((usage) => writer.end(usage));
    },

    check(caller, command) {
      try {
        const { entry } = inference.resolve(caller, command.model, 'chat');
        checkCapabilities(entry, command);
        checkPromptSizes(entry, command);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status < 500) throw error;
      }
    },

    generate: (call, command, sink, jsonSink) =>
      inference.run(call, new Generation(readers, call, command, sink, jsonSink)),
    countTokens: (call, command) => inference.run(call, new PromptCount(readers, call, command)),
  };
  return service;
}
