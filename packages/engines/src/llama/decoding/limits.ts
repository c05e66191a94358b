import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';

const MAX_TOKENS: FieldPath = ['maxTokens'];

export interface TokenBudget {
  /** The field of the prompt, for the error message. */
  field: FieldPath;
  promptTokens: number;
  contextLength: number;
  maxOutputTokens: number | null;
  maxTokens: number | undefined;
}

/** How many tokens may be generated. Throws if they cannot fit into the context. */
export function outputBudget({ field, promptTokens, contextLength, maxOutputTokens, maxTokens }: TokenBudget): number {
  const room = contextLength - promptTokens;
  if (room < 1) throw errors.contextTooLong(field, promptTokens, contextLength - 1);
  const most = Math.min(room, maxOutputTokens ?? room);
  if (maxTokens === undefined) return most;
  if (maxTokens > room) {
    throw new ApiError(
      'context_length_exceeded',
      fieldText`${MAX_TOKENS} is ${maxTokens} and the prompt has ${promptTokens} tokens, but the context of this model holds ${contextLength}. Ask for at most ${room} or shorten the prompt.`,
      { field: MAX_TOKENS },
    );
  }
  if (maxTokens > most) {
    throw new ApiError(
      'context_length_exceeded',
      fieldText`${MAX_TOKENS} is ${maxTokens}, but this model generates at most ${most} tokens in one answer.`,
      { field: MAX_TOKENS },
    );
  }
  return maxTokens;
}
