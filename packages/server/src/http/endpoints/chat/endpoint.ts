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

const choiceToWire = (choice: CollectedChoice, index: number, withLogprobs: boolean) => ({
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
});

const STOPPED = ',"stopped_by":"budget"';

/** Writes chat completions. The parts that all chunks of a stream share are built once. */
export class CompletionWriter extends ChoicesWriter<Static<typeof ChatCompletionResponse>> {
  readonly #before: string;
  /** The choices that have their first chunk, which has the role. */
  readonly #started = [false];

  constructor(options: ChoicesOptions) {
    super(options);
    const { id, created, model } = this.head;
    this.#before = `data: {"id":${JSON.stringify(id)},"object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(model)},"choices":[`;
  }

  protected whole(choices: readonly CollectedChoice[], usage: TokenUsage) {
    return {
      id: this.head.id,
      object: 'chat.completion' as const,
      created: this.head.created,
      model: this.head.model,
      choices: choices.map((choice, index) => choiceToWire(choice, index, this.withLogprobs)),
      usage: usageToWire(usage),
    };
  }

  protected chunk(index: number, event: ChatEvent): string {
    switch (event.type) {
      case 'start':
        return '';
      case 'text-delta': {
        const logprobs =
          this.withLogprobs && event.logprobs !== undefined ? JSON.stringify(logprobsToWire(event.logprobs)) : 'null';
        return this.#opening(index) + this.#write(index, `{"content":${JSON.stringify(event.text)}}`, 'null', logprobs);
      }
      case 'reasoning-delta':
        return this.#opening(index) + this.#write(index, `{"reasoning_content":${JSON.stringify(event.text)}}`, 'null');
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
        return this.#opening(index) + this.#write(index, `{"tool_calls":[${JSON.stringify(call)}]}`, 'null');
      }
      case 'end':
        return this.#opening(index) + this.#write(index, '{}', `"${event.reason}"${event.stoppedBy ? STOPPED : ''}`);
    }
  }

  protected usageChunk(usage: TokenUsage): string {
    return `${this.#before}],"usage":${JSON.stringify(usageToWire(usage))}}\n\n`;
  }

  #opening(index: number): string {
    if (this.#started[index]) return '';
    this.#started[index] = true;
    return this.#write(index, '{"role":"assistant","content":"","refusal":null}', 'null');
  }

  #write(index: number, delta: string, finish: string, logprobs = 'null'): string {
    const after = this.withUsage ? '],"usage":null}\n\n' : ']}\n\n';
    return `${this.#before}{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}${after}`;
  }
}
