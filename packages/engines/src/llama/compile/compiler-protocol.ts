import type { Field, FieldText } from '@baobab/core/errors/fields.ts';
import type { ErrorCode } from '@baobab/core/errors/kinds.ts';
import type { RequestGrammars } from './request-grammars.ts';

/** What a compiler thread sends: once that it can start, then one outcome for each request. */
export type FromCompiler = { type: 'ready' } | CompileOutcome;

export type CompileOutcome =
  | { type: 'compiled'; grammars: RequestGrammars }
  | { type: 'refused'; code: ErrorCode; text: string | FieldText; field?: Field | undefined }
  /** It took too much time, stack or memory. */
  | { type: 'exhausted' }
  | { type: 'failed'; message: string };
