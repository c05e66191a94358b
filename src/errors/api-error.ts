import { type ErrorCode, KINDS } from './kinds.ts';

export interface ErrorDetails {
  /** The offending field with its path, for example `input[3]`. */
  param?: string | undefined;
  /** When the same request would pass; becomes `Retry-After`, whole seconds, at least 1. */
  retryAfterSeconds?: number | undefined;
  cause?: unknown;
}

/** The wire shape of every error. */
export interface ErrorBody {
  error: { message: string; type: string; code: string; param: string | null };
}

/** An error that a client may see. Anything else that is thrown becomes a plain 500. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.param = details.param ?? null;
    this.retryAfterSeconds =
      details.retryAfterSeconds === undefined ? undefined : Math.max(1, Math.ceil(details.retryAfterSeconds));
  }

  get status(): number {
    return KINDS[this.code].status;
  }

  get type(): string {
    return KINDS[this.code].type;
  }

  toBody(): ErrorBody {
    return { error: { message: this.message, type: this.type, code: this.code, param: this.param } };
  }
}
