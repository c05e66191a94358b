import { type Field, type FieldPath, type FieldText, fieldName, textOf } from './fields.ts';
import { maskKeys } from './key-mask.ts';
import { type ErrorCode, KINDS } from './kinds.ts';

export interface ErrorDetails {
  /** The field that is wrong. */
  field?: Field | undefined;
  /** When the same request would succeed. Sent as `Retry-After` in whole seconds, at least 1. */
  retryAfterSeconds?: number | undefined;
  /** False: the same request fails until an operator changes something. */
  shouldRetry?: boolean | undefined;
  /** What the model wrote. The message ends with it; logs leave it out. */
  quote?: string | undefined;
  cause?: unknown;
}

const MAX_QUOTE_LENGTH = 2_000;

/** The wire shape of every error. */
export interface ErrorBody {
  error: { message: string; type: string; code: string; param: string | null };
}

const MAX_BRIEF = 500;

/** An error that a client may see. Any other error becomes a plain 500. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  readonly field: Field | undefined;
  /** The message as it was given, with the paths of its fields. */
  readonly text: string | FieldText;
  readonly retryAfterSeconds: number | undefined;
  readonly shouldRetry: boolean;
  readonly quote: string | undefined;

  constructor(code: ErrorCode, message: string | FieldText, details: ErrorDetails = {}) {
    const quote = details.quote?.slice(0, MAX_QUOTE_LENGTH);
    super(
      textOf(message) + (quote ? ` It wrote: ${quote}` : ''),
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.code = code;
    this.text = message;
    this.field = details.field;
    this.quote = quote;
    this.shouldRetry = details.shouldRetry ?? true;
    this.retryAfterSeconds =
      details.retryAfterSeconds === undefined ? undefined : Math.max(1, Math.ceil(details.retryAfterSeconds));
  }

  get status(): number {
    return KINDS[this.code].status;
  }

  get type(): string {
    return KINDS[this.code].type;
  }

  /** The message without what the model wrote. */
  get summary(): string {
    return textOf(this.text);
  }

  /** The same for lists that others may read: without keys, and cut. */
  get brief(): string {
    return maskKeys(this.summary).slice(0, MAX_BRIEF);
  }

  get param(): string | null {
    return this.field === undefined ? null : fieldName(this.field);
  }

  /** The same error with every field path in it replaced; names that the client knows already stay. */
  mapFields(map: (path: FieldPath) => Field): ApiError {
    const { code, field, text, retryAfterSeconds, shouldRetry, quote, cause } = this;
    if (typeof field !== 'object' && typeof text === 'string') return this;
    const mapped = (path: FieldPath): string | FieldPath => {
      const result = map(path);
      return typeof result === 'string' ? `'${result}'` : result;
    };
    return new ApiError(
      code,
      typeof text === 'string' ? text : text.map((part) => (typeof part === 'string' ? part : mapped(part))),
      { field: typeof field === 'object' ? map(field) : field, retryAfterSeconds, shouldRetry, quote, cause },
    );
  }

  /** The same error, with the time after which a client that may retry should do so. */
  withRetryAfter(seconds: number): ApiError {
    const { code, text, field, shouldRetry, quote, cause } = this;
    return new ApiError(code, text, {
      field,
      shouldRetry,
      quote,
      retryAfterSeconds: shouldRetry ? seconds : undefined,
      cause,
    });
  }

  withQuote(quote: string): ApiError {
    const { code, text, field, retryAfterSeconds, shouldRetry, cause } = this;
    return new ApiError(code, text, { field, retryAfterSeconds, shouldRetry, quote, cause });
  }

  toBody(): ErrorBody {
    return { error: { message: maskKeys(this.message), type: this.type, code: this.code, param: this.param } };
  }
}
