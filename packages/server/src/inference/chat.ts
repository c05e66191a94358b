import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { MOST_TEMPLATE_TOKENS } from '@baobab/core/domain/text-size.ts';
import type { ChatEvent, ChatRequest, TokenUsage } from '@baobab/core/engine/engine.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { fieldText } from '@baobab/core/errors/fields.ts';
import type { Caller, InferenceCall } from './call.ts';
import type { ChatCommand, ChatSink } from './chat-command.ts';
import { ChatPrompt, type PromptReaders } from './chat-prompt.ts';
import { ChatRun, STEP_TOKENS } from './chat-run.ts';
import { checkVision } from './inputs/images.ts';
import type { Bounds, InferenceService } from './pipeline.ts';
import { checkPromptSize, fewestPromptTokens } from './prompt-size.ts';

/** A slow client makes it return a promise, for which its choice waits. */
export type SendText = (text: string) => void | Promise<void>;

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
  check(caller: Caller, command: ChatCommand): void;
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

/** Throws what the client did wrong, once the text of the prompt is complete. */
function fitted(entry: ModelEntry, command: ChatCommand): ChatCommand {
  const lowered = command.lowersMaxTokens ? { ...command, request: lowerMaxTokens(entry, command.request) } : command;
  checkCapabilities(entry, lowered);
  checkPromptSize(entry, lowered.request);
  return lowered;
}

const longestAnswer = ({ contextLength, maxOutputTokens }: ModelEntry): number => maxOutputTokens ?? contextLength;

/** Used until the engine has counted. Few clients use all of `maxTokens`, so the token limit takes a quarter of it. */
function boundsOf(entry: ModelEntry, prompt: ChatPrompt): Bounds {
  const { contextLength } = entry;
  const { request, choices } = prompt.command;
  const answer = (tokens: number) => Math.min(request.maxTokens ?? tokens, longestAnswer(entry)) * choices;
  return {
    tokens: Math.min(prompt.estimatedTokens(), contextLength) + Math.ceil(answer(UNBOUNDED_ANSWER_TOKENS) / 4),
    most: {
      promptTokens: Math.min(prompt.mostTokens() + MOST_TEMPLATE_TOKENS, contextLength),
      completionTokens: answer(contextLength),
    },
  };
}

/**
 * What a budget must hold before the answer begins: the longest one that the client has asked for. If it has not, or its program asks for
 * the longest answer of any model, the answer is reserved in steps as it is written. Instructions of the template are asked for at the end,
 * because few models have them.
 */
function reservedFor(entry: ModelEntry, prompt: ChatPrompt) {
  const { request, choices, lowersMaxTokens } = prompt.command;
  const most = Math.min(request.maxTokens ?? Number.POSITIVE_INFINITY, longestAnswer(entry)) * choices;
  const isOpen = request.maxTokens === undefined || lowersMaxTokens;
  return {
    promptTokens: Math.min(prompt.mostTokens(), entry.contextLength),
    completionTokens: isOpen ? Math.min(STEP_TOKENS, most) : most,
  };
}

export interface ChatDependencies extends PromptReaders {
  inference: Pick<InferenceService, 'resolve' | 'run'>;
}

export function createChat({ inference, ...readers }: ChatDependencies): ChatService {
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
        const { entry } = inference.resolve(caller, command.model, 'chat');
        checkCapabilities(entry, command);
        checkPromptSize(entry, command.request);
      } catch (error) {
        if (!(error instanceof ApiError) || error.status < 500) throw error;
      }
    },

    generate(call, command, sink) {
      const prompt = new ChatPrompt(readers, call, command);
      let most = 0;
      return inference.run(call, {
        modality: 'chat',
        model: command.model,
        bound({ entry }) {
          prompt.fit((sent) => fitted(entry, sent));
          const bounds = boundsOf(entry, prompt);
          most = bounds.most.completionTokens ?? 0;
          return bounds;
        },
        reserve: ({ entry }) => reservedFor(entry, prompt),
        read: ({ entry }) => prompt.read((complete) => fitted(entry, complete)),
        run: (session) =>
          new ChatRun(session, { call, sink, request: prompt.request(), choices: command.choices, most }).run(),
      });
    },

    countTokens(call, command) {
      const prompt = new ChatPrompt(readers, call, command);
      return inference.run(call, {
        modality: 'chat',
        model: command.model,
        bound({ entry }) {
          prompt.fit((sent) => sent);
          checkPromptSize(entry, prompt.command.request);
          return { tokens: 0, most: {} };
        },
        read: ({ entry }) => prompt.read(({ request }) => checkPromptSize(entry, request)),
        async run(session) {
          const counted = await session.capability('chat').countTokens?.(prompt.request(), session.context);
          return counted ?? prompt.estimatedTokens();
        },
      });
    },
  };
  return service;
}
