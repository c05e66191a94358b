import type { ChatEvent, ChatRequest, TokenLogprob, TokenUsage } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { Static } from 'typebox';
import type { ChatCommand } from '../../../inference/chat-prompt.ts';
import { inferenceErrors } from '../../answer/error-answer.ts';
import { ChoicesWriter, type CollectedChoice, stoppedByToWire, usageToWire } from '../../generation/choices.ts';
import { answerGeneration, type GenerationDependencies, type GenerationEndpoint } from '../../generation/endpoint.ts';
import { generationFieldNames, refuseOversized, requestFieldsOf } from '../../generation/request.ts';
import { type CompletionBody, CompletionRequest, CompletionResponse, MAX_PROMPTS } from './schema.ts';

/** The default of this older endpoint. */
const COMPLETION_MAX_TOKENS = 16;

export function completionCommand(body: CompletionBody): ChatCommand {
  refuseOversized(body);
  if (body.suffix) throw errors.unsupportedParameter('suffix', "'suffix' is not supported.");
  if (body.add_special_tokens === false) {
    throw errors.unsupportedParameter(
      'add_special_tokens',
      "'add_special_tokens' cannot be false. Send token ids instead.",
    );
  }
  if (body.best_of && body.best_of > (body.n ?? 1)) {
    throw errors.unsupportedParameter('best_of', "'best_of' above 'n' is not supported.");
  }
  const prompts = promptsOf(body);
  const [prompt = { text: '' }] = prompts;
  const request: ChatRequest = {
    ...requestFieldsOf(body),
    maxTokens: body.max_tokens ?? COMPLETION_MAX_TOKENS,
    prompt,
    echoes: body.echo || undefined,
    logprobs: body.logprobs === null || body.logprobs === undefined ? undefined : { top: body.logprobs },
  };
  return { model: body.model, choices: body.n ?? 1, request, prompts: prompts.length > 1 ? prompts : undefined };
}

function promptsOf({ prompt }: CompletionBody): ChatRequest['prompt'][] {
  if (typeof prompt === 'string') return [{ text: prompt }];
  if (isTokens(prompt)) return [{ tokens: prompt }];
  if (prompt.length > MAX_PROMPTS) throw errors.tooManyItems('prompt', prompt.length, MAX_PROMPTS);
  return prompt.map((each) => (typeof each === 'string' ? { text: each } : { tokens: each }));
}

const isTokens = (prompt: readonly unknown[]): prompt is number[] => typeof prompt[0] === 'number';

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of a token. A part of a character is written as OpenAI does, so that parts differ: `bytes:\xe2\x80`. */
function labelOf({ token, bytes }: Pick<TokenLogprob, 'token' | 'bytes'>): string {
  try {
    strict.decode(Uint8Array.from(bytes));
    return token;
  } catch {
    return `bytes:${bytes.map(byteText).join('')}`;
  }
}

const byteText = (byte: number): string =>
  byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;

/** The token that was chosen is among the likeliest ones, also if it is not as likely as they are. */
const likeliest = ({ top, ...chosen }: TokenLogprob): Record<string, number | null> | null =>
  chosen.logprob === null ? null : Object.fromEntries([...top, chosen].map((each) => [labelOf(each), each.logprob]));

/** Where the tokens of a choice begin in its text. */
class TextOffsets {
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #end = 0;

  next({ bytes }: TokenLogprob): number {
    const start = this.#end;
    this.#end += this.#decoder.decode(Uint8Array.from(bytes), { stream: true }).length;
    return start;
  }
}

const logprobsToWire = (found: readonly TokenLogprob[], offsets: TextOffsets) => ({
  tokens: found.map(labelOf),
  token_logprobs: found.map(({ logprob }) => logprob),
  top_logprobs: found.map(likeliest),
  text_offset: found.map((each) => offsets.next(each)),
});

/** Completions call no tools. */
const reasonOf = (reason: CollectedChoice['finishReason']): 'stop' | 'length' =>
  reason === 'length' ? 'length' : 'stop';

/** Writes completions of a text. */
export class TextWriter extends ChoicesWriter<Static<typeof CompletionResponse>> {
  readonly #offsets = new Map<number, TextOffsets>();

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
        logprobs: this.withLogprobs ? logprobsToWire(choice.logprobs, new TextOffsets()) : null,
        finish_reason: reasonOf(choice.finishReason),
        ...stoppedByToWire(choice),
        ...(this.withTokenIds && { prompt_token_ids: [...choice.promptTokenIds], token_ids: choice.tokenIds }),
      })),
      usage: usageToWire(usage),
    };
  }

  protected chunk(index: number, event: ChatEvent, usage: object | null | undefined): string {
    const { tokenIds } = event;
    if (event.type === 'text-delta') {
      const { logprobs: found } = event;
      const logprobs = this.withLogprobs && found !== undefined ? logprobsToWire(found, this.#offsetsOf(index)) : null;
      return this.#write([{ index, text: event.text, logprobs, finish_reason: null, token_ids: tokenIds }], usage);
    }
    if (event.type === 'end') {
      const end = { index, text: '', logprobs: null, finish_reason: reasonOf(event.reason), token_ids: tokenIds };
      return this.#write([{ ...end, ...stoppedByToWire(event) }], usage);
    }
    if (event.type !== 'start' || tokenIds === undefined) return '';
    return this.#write([{ index, text: '', logprobs: null, finish_reason: null, prompt_token_ids: tokenIds }], usage);
  }

  protected usageChunk(usage: TokenUsage): string {
    return this.#write([], usageToWire(usage));
  }

  #offsetsOf(index: number): TextOffsets {
    const known = this.#offsets.get(index) ?? new TextOffsets();
    this.#offsets.set(index, known);
    return known;
  }

  #write(choices: unknown[], usage: object | null | undefined): string {
    const { id, created, model } = this.head;
    return `data: ${JSON.stringify({ id, object: 'text_completion', created, model, choices, usage })}\n\n`;
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
