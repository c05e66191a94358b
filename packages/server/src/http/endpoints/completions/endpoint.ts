import type { ChatEvent, ChatRequest, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { ChoicesWriter, type CollectedChoice, stoppedByToWire, usageToWire } from '../../generation/choices.ts';
import { answerGeneration, type GenerationDependencies, type GenerationEndpoint } from '../../generation/endpoint.ts';
import { generationFieldNames, refuseOversized, samplingOf } from '../../generation/request.ts';
import { type CompletionBody, CompletionRequest, CompletionResponse } from './schema.ts';

/** The default of this older endpoint. */
const COMPLETION_MAX_TOKENS = 16;

export function completionCommand(body: CompletionBody): ChatCommand {
  refuseOversized(body);
  for (const field of ['echo', 'suffix'] as const) {
    if (body[field]) throw errors.unsupportedParameter(field, `'${field}' is not supported.`);
  }
  if (body.best_of && body.best_of > (body.n ?? 1)) {
    throw errors.unsupportedParameter('best_of', "'best_of' above 'n' is not supported.");
  }
  const { prompt } = body;
  if (typeof prompt[0] === 'string' && typeof prompt !== 'string' && prompt.length > 1) {
    throw errors.validationFailed('prompt', `'prompt' holds ${prompt.length} prompts; one is accepted in a request.`);
  }
  const request: ChatRequest = {
    ...samplingOf(body),
    maxTokens: body.max_tokens ?? COMPLETION_MAX_TOKENS,
    prompt:
      typeof prompt === 'string'
        ? { text: prompt }
        : typeof prompt[0] === 'string'
          ? { text: prompt[0] }
          : { tokens: prompt as number[] },
    logprobs: body.logprobs === null || body.logprobs === undefined ? undefined : { top: body.logprobs },
  };
  return { model: body.model, choices: body.n ?? 1, request };
}

/** `start` is the offset of the first token in the text. */
function logprobsToWire(found: readonly TokenLogprob[], start = 0) {
  let offset = start;
  const offsets = found.map(({ token }) => {
    const before = offset;
    offset += token.length;
    return before;
  });
  return {
    tokens: found.map(({ token }) => token),
    token_logprobs: found.map(({ logprob }) => logprob),
    top_logprobs: found.map(({ top }) => Object.fromEntries(top.map(({ token, logprob }) => [token, logprob]))),
    text_offset: offsets,
  };
}

/** Completions call no tools. */
const reasonOf = (reason: CollectedChoice['finishReason']): 'stop' | 'length' =>
  reason === 'length' ? 'length' : 'stop';

/** Writes completions of a text. */
export class TextWriter extends ChoicesWriter<Static<typeof CompletionResponse>> {
  /** Characters sent for each choice. */
  readonly #sent = new Map<number, number>();

  protected whole(choices: readonly CollectedChoice[], usage: TokenUsage) {
    const { id, created, model } = this.head;
    return {
      id,
      object: 'text_completion' as const,
      created,
      model,
      choices: choices.map((choice, index) => ({
        index,
        text: choice.text,
        logprobs: this.withLogprobs ? logprobsToWire(choice.logprobs) : null,
        finish_reason: reasonOf(choice.finishReason),
        ...stoppedByToWire(choice),
      })),
      usage: usageToWire(usage),
    };
  }

  protected chunk(index: number, event: ChatEvent): string {
    if (event.type === 'text-delta') {
      const start = this.#sent.get(index) ?? 0;
      this.#sent.set(index, start + event.text.length);
      const { logprobs: found } = event;
      const logprobs = this.withLogprobs && found !== undefined ? logprobsToWire(found, start) : null;
      return this.#write([{ index, text: event.text, logprobs, finish_reason: null }], null);
    }
    if (event.type === 'end') {
      const end = { index, text: '', logprobs: null, finish_reason: reasonOf(event.reason) };
      return this.#write([{ ...end, ...stoppedByToWire(event) }], null);
    }
    return '';
  }

  protected usageChunk(usage: TokenUsage): string {
    return this.#write([], usageToWire(usage));
  }

  #write(choices: unknown[], usage: unknown): string {
    const { id, created, model } = this.head;
    const common = { id, object: 'text_completion', created, model, choices };
    return `data: ${JSON.stringify(this.withUsage ? { ...common, usage } : common)}\n\n`;
  }
}

export const completionEndpoint: GenerationEndpoint<typeof CompletionRequest, Static<typeof CompletionResponse>> = {
  path: '/v1/completions',
  schema: CompletionRequest,
  fieldNames: generationFieldNames,
  command: completionCommand,
  writer: (body, command, clock) => new TextWriter({ idPrefix: 'cmpl', body, command, clock }),
};

export const completionRoutes: FastifyPluginAsyncTypebox<GenerationDependencies> = async (server, dependencies) => {
  const { schema: body, fieldNames } = completionEndpoint;
  server.post(
    '/completions',
    {
      config: { operation: 'completions.create', fieldNames, documented: { answers: ['text/event-stream'] } },
      schema: {
        summary: 'Create a completion',
        tags: ['Inference'],
        body,
        response: { 200: CompletionResponse, ...inferenceErrors },
      },
    },
    async (request, reply) => answerGeneration(completionEndpoint, dependencies, request, reply),
  );
};
