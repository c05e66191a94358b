import { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { type FieldPath, fieldText } from '../../errors/fields.ts';
import type { ErrorCode } from '../../errors/kinds.ts';

/**
 * - `rejected`: the upstream is well and refuses this request; another address would refuse it too.
 * - `too-many`: more inputs or bytes than this address takes in one call (413).
 * - `busy`: it is well, but full (429).
 * - `reset`: the connection broke before any answer, as a kept-alive one may at any time.
 * - `broken`, `timeout`: it does not work now.
 * - `cancelled`: the caller gave up.
 */
export type FailureKind = 'rejected' | 'too-many' | 'busy' | 'reset' | 'broken' | 'timeout' | 'cancelled';

/** Why one attempt at one address failed, with what the client would be told if it were the last one. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly kind: FailureKind;
  readonly apiError: ApiError;
  /** Free text of the upstream, for the log only. */
  readonly detail: string;

  constructor(kind: FailureKind, apiError: ApiError, detail: string) {
    super(detail);
    this.kind = kind;
    this.apiError = apiError;
    this.detail = detail;
  }
}

/** What a message to the client may say: the slug, and where a too long text was found. */
export interface FailureScope {
  slug: string;
  /** The upstream's own name of the model, which clients never see. */
  upstreamName: string;
  contextLength: number;
  /** Which request field a context error is about, for example `messages` or `input`. */
  param: string;
}

interface UpstreamError {
  message: string;
  type: string;
  code: string;
  param: string | undefined;
  tokens: number | undefined;
  limit: number | undefined;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');
const count = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/**
 * OpenAI, vLLM, llama-server: `{error: {message, type, code}}`; TEI: `{error, error_type}` or `{message, code, type}`; older vLLM:
 * `{object: "error", message}`; Ollama: `{error}`; FastAPI's own checks: `{detail}`.
 */
function readError(body: unknown): UpstreamError {
  const outer = isRecord(body) ? body : {};
  const inner = isRecord(outer.error) ? outer.error : outer;
  const detail =
    typeof outer.detail === 'string' ? outer.detail : outer.detail === undefined ? '' : JSON.stringify(outer.detail);
  return {
    message: text(inner.message) || text(outer.error) || detail || (typeof body === 'string' ? body : ''),
    type: text(inner.type) || text(outer.error_type),
    code: text(inner.code),
    param: typeof inner.param === 'string' && /^[\w.[\]]{1,64}$/.test(inner.param) ? inner.param : undefined,
    tokens: count(inner.n_prompt_tokens),
    limit: count(inner.n_ctx),
  };
}

const CONTEXT_ERROR =
  /maximum (context|model) length|context[ _](length|size|window)|must have less than \d+ (tokens|characters)|too large to process|physical batch size|exceeds? (the )?(maximum|limit).*tokens/i;
/** Older TEI answers 413 for a long input as for a large batch, newer 422 for both; llama-server 500 for an embedding over its physical batch. */
const CONTEXT_STATUSES = new Set([400, 413, 422, 500]);
const LIMIT =
  /(?:maximum (?:context|model) length (?:is|of)|less than|available context size|at most|current batch size:)\D{0,4}(\d+)/i;
const TOKENS =
  /(?:requested|resulted in|given:|request \(|contains at least|contains|your request has|prompt has|'[^']*' has|input \()\D{0,4}(\d+)/i;
const BATCH_LIMIT = /batch size \d+ > maximum allowed batch size/;
const TOO_MUCH_OUTPUT = /^'?max_(completion_)?tokens\b.* too large/i;

function contextError(error: UpstreamError, scope: FailureScope): ApiError {
  const inTokens = !/\d characters/.test(error.message);
  const told = (pattern: RegExp) =>
    inTokens ? count(Number(pattern.exec(error.message)?.[1] ?? Number.NaN)) : undefined;
  const limit = error.limit ?? told(LIMIT) ?? scope.contextLength;
  const tokens = error.tokens ?? told(TOKENS);
  if (TOO_MUCH_OUTPUT.test(error.message)) {
    return new ApiError(
      'context_length_exceeded',
      fieldText`The prompt and ${MAX_TOKENS} together must fit into the ${limit} tokens of this model.`,
      { field: MAX_TOKENS },
    );
  }
  const param = error.param?.startsWith(scope.param) ? error.param : scope.param;
  if (tokens !== undefined && tokens > limit) return errors.contextTooLong(param, tokens, limit);
  return new ApiError(
    'context_length_exceeded',
    `'${param}' is longer than the ${limit} tokens that this model takes. Shorten it or split it.`,
    { field: param },
  );
}

const MAX_MESSAGE_LENGTH = 300;

/** An upstream's words, without what would tell a client where and under which name the model runs. */
export function sanitize(message: string, scope: Pick<FailureScope, 'slug' | 'upstreamName'>): string {
  let clean = message
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, '…')
    .replace(/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '…')
    .replace(/\blocalhost(?::\d+)?\b/gi, '…')
    .replace(/(?<![\w.])(?:\/[\w.@-]+){2,}\/?/g, '…');
  if (scope.upstreamName !== '') clean = clean.replaceAll(scope.upstreamName, scope.slug);
  clean = clean.replace(/\s+/g, ' ').trim();
  return clean.length > MAX_MESSAGE_LENGTH ? `${clean.slice(0, MAX_MESSAGE_LENGTH - 1)}…` : clean;
}

/** Another Baobab has the same table, and OpenAI some of its codes; only those about the request itself are taken over. */
const REQUEST_CODES: readonly ErrorCode[] = [
  'invalid_parameter',
  'missing_parameter',
  'unsupported_parameter',
  'too_many_inputs',
  'validation_failed',
];

const MAX_TOKENS: FieldPath = ['maxTokens'];
const MAX_TOKENS_NAME = /'max_(?:completion_)?tokens'/g;

/** Clients name the limit of an answer in two ways: the error names it as this client did. */
function ownRefusal(code: ErrorCode, error: UpstreamError, scope: FailureScope): ApiError {
  const message = sanitize(error.message, scope);
  if (!/^max_(completion_)?tokens$/.test(error.param ?? '')) return new ApiError(code, message, { field: error.param });
  const texts = message.split(MAX_TOKENS_NAME);
  const text = texts.flatMap((part, index) => (index === 0 ? [part] : [MAX_TOKENS, part]));
  return new ApiError(code, text, { field: MAX_TOKENS });
}

export function failureFromAnswer(
  status: number,
  body: unknown,
  scope: FailureScope,
  retryAfter?: string | undefined,
): UpstreamFailure {
  const error = readError(body);
  const detail = `status ${status}: ${error.message.slice(0, 1_000)}`;
  const unavailable = (reason: string) => errors.modelUnavailable(scope.slug, reason);

  const isContext =
    error.type === 'exceed_context_size_error' ||
    error.code === 'context_length_exceeded' ||
    (CONTEXT_STATUSES.has(status) && CONTEXT_ERROR.test(error.message));
  if (isContext) return new UpstreamFailure('rejected', contextError(error, scope), detail);

  if (status === 429) {
    const seconds = Number(retryAfter);
    const wait = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 60) : 1;
    return new UpstreamFailure('busy', errors.capacityExceeded(wait, 'every place that serves it is busy'), detail);
  }
  if (status === 413 || BATCH_LIMIT.test(error.message)) {
    const tooLarge = new ApiError(
      'context_length_exceeded',
      `'${scope.param}' is larger than this model takes in one request.`,
      {
        field: scope.param,
      },
    );
    return new UpstreamFailure('too-many', tooLarge, detail);
  }
  if (status === 408 || status === 504) {
    return new UpstreamFailure('timeout', errors.upstreamTimeout('the upstream timed out'), detail);
  }
  // TEI answers 424 when its backend failed.
  if (status >= 500 || status === 424) return new UpstreamFailure('broken', unavailable('its upstream failed'), detail);
  if (status === 401 || status === 402 || status === 403 || status === 404 || status === 405) {
    return new UpstreamFailure('broken', unavailable('its upstream is not set up correctly'), detail);
  }
  const own = REQUEST_CODES.find((code) => code === error.code);
  if (status >= 400 && own !== undefined && error.message !== '') {
    const refusal = ownRefusal(own, error, scope);
    return new UpstreamFailure('rejected', refusal, detail);
  }
  if (status >= 400) {
    const reason = sanitize(error.message, scope) || 'it gave no reason';
    const message = `The model refused the request: ${reason}`;
    return new UpstreamFailure('rejected', errors.invalidParameter(error.param, message), detail);
  }
  return new UpstreamFailure('broken', unavailable('its upstream gave an unexpected answer'), detail);
}

const RESET_CODES = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);
const CONNECT_TIMEOUT_CODES = new Set(['ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT']);

const errorCode = (error: unknown): string =>
  isRecord(error) && typeof error.code === 'string'
    ? error.code
    : isRecord(error) && error.cause
      ? errorCode(error.cause)
      : '';

/** What connections say when no whole answer came. */
export function failureFromTransport(error: unknown, scope: Pick<FailureScope, 'slug'>): UpstreamFailure {
  const code = errorCode(error);
  const detail = `${code} ${error instanceof Error ? error.message : String(error)}`.trim();
  if (CONNECT_TIMEOUT_CODES.has(code)) {
    return new UpstreamFailure('timeout', errors.upstreamTimeout('no connection to its upstream'), detail);
  }
  const reason = errors.modelUnavailable(scope.slug, 'its upstream cannot be reached');
  return new UpstreamFailure(RESET_CODES.has(code) ? 'reset' : 'broken', reason, detail);
}

/** A body that is not what the protocol says. */
export function malformedAnswer(detail: string, scope: Pick<FailureScope, 'slug'>): UpstreamFailure {
  return new UpstreamFailure(
    'broken',
    errors.modelUnavailable(scope.slug, 'its upstream gave an unexpected answer'),
    detail,
  );
}
