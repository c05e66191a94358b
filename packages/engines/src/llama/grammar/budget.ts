import { ApiError } from '@baobab/core/errors/api-error.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';

/** Work that one schema may cause. A schema with a thousand properties needs about a tenth of it. */
export const MAX_STEPS = 100_000;
/** llama.cpp checks every token of the vocabulary against each alternative: 256 of them cost about 60 ms for a token. */
export const MAX_ALTERNATIVES = 256;

/** Counts the work of compiling a schema, so that time does not depend on what a client sends. */
export interface CompileBudget {
  readonly spent: number;
  /** Throws a 422 that names the keyword once the steps are used up. */
  spend(steps: number, location: FieldPath, keyword: string): void;
}

export function createBudget(limit = MAX_STEPS): CompileBudget {
  let spent = 0;
  return {
    get spent() {
      return spent;
    },
    spend(steps, location, keyword) {
      spent += steps;
      if (spent > limit) throw tooComplex(location, keyword);
    },
  };
}

/** A 422 for a schema that would take too long to compile or to follow while decoding. */
export function tooComplex(location: FieldPath, keyword: string, why?: string): ApiError {
  return new ApiError(
    'unsupported_parameter',
    fieldText`The schema keyword '${keyword}' at ${location} is too complex to be enforced${why === undefined ? '' : `: ${why}`}.`,
    { field: location },
  );
}

export function checkAlternatives(count: number, location: FieldPath, keyword: string, what: string): void {
  if (count <= MAX_ALTERNATIVES) return;
  throw tooComplex(location, keyword, `${what}, at most ${MAX_ALTERNATIVES} are accepted`);
}
