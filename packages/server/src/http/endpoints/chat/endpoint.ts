import type { ChatEvent, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import { inferenceErrors } from '../../answer/error-answer.ts';
import {
  type ChoicesOptions,
  ChoicesWriter,
  type CollectedChoice,
  stoppedByToWire,
  usageToWire,
} from '../../generation/choices.ts';
import { answerGeneration, type GenerationDependencies, type GenerationEndpoint } from '../../generation/endpoint.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { chatCommand } from './command.ts';
import { ChatCompletionRequest, ChatCompletionResponse } from './schema.ts';

export const chatEndpoint: GenerationEndpoint<typeof ChatCompletionRequest, Static<typeof ChatCompletionResponse>> = {
  path: '/v1/chat/completions',
  schema: ChatCompletionRequest,
  fieldNames: generationFieldNames,
  command: chatCommand,
  writer: (body, command, clock) => new CompletionWriter({ idPrefix: 'chatcmpl', body, command, clock }),
};

export const chatRoutes: FastifyPluginAsyncTypebox<GenerationDependencies> = async (server, dependencies) => {
  const { schema: body, fieldNames } = chatEndpoint;
  server.post(
    '/chat/completions',
    {
      config: { operation: 'chat.completions.create', fieldNames, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a chat completion',
        tags: ['Inference'],
        body,
        response: { 200: ChatCompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => answerGeneration(chatEndpoint, dependencies, request, reply),
  );
};

const logprobToWire = ({ token, bytes, logprob, top }: TokenLogprob) => ({
  token,
  bytes: [...bytes],
  logprob,
  top_logprobs: top.map((each) => ({ token: each.token, bytes: [...each.bytes], logprob: each.logprob })),
});

const logprobsToWire = (found: readonly TokenLogprob[]) => ({
  content: found.map(logprobToWire),
  refusal: null,
});

const callToWire = ({ id, name, arguments: text }: CollectedChoice['toolCalls'][number]) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: text },
});

const choiceToWire = (
  choice: CollectedChoice,
  index: number,
  { withLogprobs, withTokenIds }: { withLogprobs: boolean; withTokenIds: boolean },
) => ({
  index,
  message: {
    role: 'assistant' as const,
    content: choice.text === '' && choice.toolCalls.length > 0 ? null : choice.text,
    refusal: null,
    ...(choice.reasoning === '' ? {} : { reasoning_content: choice.reasoning }),
    ...(choice.toolCalls.length === 0 ? {} : { tool_calls: choice.toolCalls.map(callToWire) }),
  },
  logprobs: withLogprobs ? logprobsToWire(choice.logprobs) : null,
  finish_reason: choice.finishReason,
  ...stoppedByToWire(choice),
  ...(withTokenIds && { token_ids: choice.tokenIds }),
});

const TEXT: ChatEvent = { type: 'text-delta', text: '' };
const STOPPED = ',"stopped_by":"budget"';

/** Writes chat completions. The parts that all chunks of a stream share are built once. */
export class CompletionWriter extends ChoicesWriter<Static<typeof ChatCompletionResponse>> {
  readonly #before: string;
  /** Around the text of a chunk that has nothing else. */
  readonly #beforeText: string[] = [];
  readonly #afterText: string;
  /** The choices that have their first chunk, which has the role. */
  readonly #started = [false];

  constructor(options: ChoicesOptions) {
    super(options);
    const { id, created, model } = this.head;
    this.#before = `data: {"id":${JSON.stringify(id)},"object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(model)},"choices":[`;
    this.#afterText = `},"logprobs":null,"finish_reason":null}]${this.withUsage ? ',"usage":null' : ''}}\n\n`;
  }

  takeJson(index: number, text: string): string {
    this.#beforeText[index] ??= `${this.#before}{"index":${index},"delta":{"content":`;
    const opening = this.#started[index] ? '' : this.#opening(index, TEXT, this.withUsage ? null : undefined);
    return opening + this.#beforeText[index] + text + this.#afterText;
  }

  protected whole(choices: readonly CollectedChoice[], usage: TokenUsage) {
    const { withLogprobs, withTokenIds } = this;
    return {
      id: this.head.id,
      object: 'chat.completion' as const,
      created: this.head.created,
      model: this.head.model,
      choices: choices.map((choice, index) => choiceToWire(choice, index, { withLogprobs, withTokenIds })),
      ...(withTokenIds && { prompt_token_ids: [...(choices[0]?.promptTokenIds ?? [])] }),
      usage: usageToWire(usage),
    };
  }

  protected chunk(index: number, event: ChatEvent, usage: object | null | undefined): string {
    const written = this.#delta(event);
    const opened = written === undefined && event.tokenIds === undefined ? '' : this.#opening(index, event, usage);
    return written === undefined ? opened : opened + this.#write(index, written, event, usage);
  }

  protected usageChunk(usage: TokenUsage): string {
    return `${this.#before}],"usage":${JSON.stringify(usageToWire(usage))}}\n\n`;
  }

  /** The members of a choice that the event adds. */
  #delta(event: ChatEvent): string | undefined {
    switch (event.type) {
      case 'start':
        return undefined;
      case 'text-delta': {
        const logprobs =
          this.withLogprobs && event.logprobs !== undefined ? JSON.stringify(logprobsToWire(event.logprobs)) : 'null';
        return membersOf(`{"content":${JSON.stringify(event.text)}}`, 'null', logprobs);
      }
      case 'reasoning-delta':
        return membersOf(`{"reasoning_content":${JSON.stringify(event.text)}}`);
      case 'tool-call-delta': {
        const call =
          event.id === undefined
            ? { index: event.index, function: { arguments: event.argumentsDelta } }
            : {
                index: event.index,
                id: event.id,
                type: 'function',
                function: { name: event.name ?? '', arguments: event.argumentsDelta },
              };
        return membersOf(`{"tool_calls":[${JSON.stringify(call)}]}`);
      }
      case 'end':
        return membersOf('{}', `"${event.reason}"${event.stoppedBy ? STOPPED : ''}`);
    }
  }

  #opening(index: number, event: ChatEvent, usage: object | null | undefined): string {
    if (this.#started[index]) return '';
    this.#started[index] = true;
    const role = membersOf('{"role":"assistant","content":"","refusal":null}');
    return this.#write(index, role, event.type === 'start' ? event : undefined, usage);
  }

  #write(index: number, members: string, event: ChatEvent | undefined, usage: object | null | undefined): string {
    const ids = event?.tokenIds === undefined ? undefined : JSON.stringify(event.tokenIds);
    const isPrompt = event?.type === 'start';
    const ofChoice = ids === undefined || isPrompt ? '' : `,"token_ids":${ids}`;
    const ofPrompt = ids !== undefined && isPrompt ? `,"prompt_token_ids":${ids}` : '';
    const counted = usage === undefined ? '' : `,"usage":${JSON.stringify(usage)}`;
    return `${this.#before}{"index":${index},${members}${ofChoice}}]${ofPrompt}${counted}}\n\n`;
  }
}

const membersOf = (delta: string, finish = 'null', logprobs = 'null'): string =>
  `"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}`;
