import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';

/** One token. Other requests wait while it is chosen. */
const MAX_TOKEN_MS = 3_000;
/** All tokens of an answer: this, and more with each token. A grammar at the limit of the compiler takes about 60 ms for one. */
const BASE_MS = 5_000;
const MS_A_TOKEN = 150;

/**
 * Limits the time that an answer may spend on following its grammar. The compiler refuses grammars that are known to be slow. This
 * ends an answer whose grammar is slow in a way that the compiler does not foresee.
 */
export interface GrammarTime {
  /** A token is being chosen. */
  begin(): void;
  /** It was chosen. Throws a 422 if that took too long. */
  end(): void;
}

export function createGrammarTime(request: Pick<ChatRequest, 'format'>, now: () => number): GrammarTime {
  let startedAt: number | undefined;
  let spentMs = 0;
  let tokens = 0;
  return {
    begin() {
      startedAt = now();
    },
    end() {
      if (startedAt === undefined) return;
      const tookMs = now() - startedAt;
      startedAt = undefined;
      spentMs += tookMs;
      tokens += 1;
      if (tookMs > MAX_TOKEN_MS || spentMs > BASE_MS + MS_A_TOKEN * tokens) throw tooSlow(request);
    },
  };
}

function tooSlow({ format }: Pick<ChatRequest, 'format'>) {
  const location: FieldPath = format?.type === 'json_schema' ? ['format', 'schema'] : ['tools'];
  return errors.unsupportedParameter(
    location,
    fieldText`The schema at ${location} takes too long to be enforced. Use fewer alternatives and shorter patterns.`,
  );
}
