import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ChatCommand } from '../../../inference/chat-command.ts';
import { refuseOversized, samplingOf } from '../../generation/request.ts';
import type { CompletionBody } from './schema.ts';

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
    throw errors.invalidParameter('prompt', `'prompt' holds ${prompt.length} prompts; one is accepted in a request.`);
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
