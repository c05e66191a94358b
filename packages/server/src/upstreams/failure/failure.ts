import type { UpstreamFailureKind } from '@baobab/core/domain/attempts.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';

/** Why one call to one upstream failed, with the error for the client if no other upstream succeeds. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly kind: UpstreamFailureKind;
  readonly apiError: ApiError;
  /** The upstream's own text. For the log only. */
  readonly detail: string;
  /** The request cannot be the cause, for example because it never arrived. */
  readonly isUpstreamFault: boolean;

  constructor(kind: UpstreamFailureKind, apiError: ApiError, detail: string, isUpstreamFault = false) {
    super(detail);
    this.kind = kind;
    this.apiError = apiError;
    this.detail = detail;
    this.isUpstreamFault = isUpstreamFault;
  }
}

const RESET_CODES = new Set(['ECONNRESET', 'EPIPE']);
const CONNECT_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  if ('code' in error && typeof error.code === 'string') return error.code;
  return 'cause' in error ? errorCode(error.cause) : '';
}

/** For errors of the connection: no whole answer arrived. */
export function failureFromTransport(error: unknown, slug: string): UpstreamFailure {
  const code = errorCode(error);
  const detail = `${code} ${error instanceof Error ? error.message : String(error)}`.trim();
  if (code === 'ETIMEDOUT') {
    return new UpstreamFailure('timeout', errors.upstreamTimeout('no connection to its upstream'), detail, true);
  }
  const reason = 'its upstream cannot be reached';
  // The request may have caused a reset, but not a connection that was never made.
  if (CONNECT_CODES.has(code)) return new UpstreamFailure('broken', errors.upstreamsAway(slug, reason), detail, true);
  const kind = RESET_CODES.has(code) ? 'reset' : 'broken';
  return new UpstreamFailure(kind, errors.modelUnavailable(slug, reason), detail);
}

/** A part of a request that the upstream would ignore. */
export const cannotKeep = (field: FieldPath) =>
  errors.unsupportedParameter(
    field,
    fieldText`${field} is not supported by the server that runs this model. Leave it out.`,
  );

/** The request is in order, but this upstream cannot tell tokens. */
export const noTokenRoute = (detail: string): UpstreamFailure =>
  new UpstreamFailure(
    'no-route',
    errors.unsupportedParameter(['model'], fieldText`The server that runs ${['model']} has no route for tokens.`),
    detail,
  );

/** For an answer that does not follow the protocol. */
export function malformedAnswer(detail: string, slug: string): UpstreamFailure {
  return new UpstreamFailure('broken', errors.modelUnavailable(slug, 'its upstream gave an unexpected answer'), detail);
}
