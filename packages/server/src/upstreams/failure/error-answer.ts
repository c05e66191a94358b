import type { Modality } from '@baobab/core/domain/model.ts';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldName, fieldText } from '@baobab/core/errors/fields.ts';
import type { ErrorCode } from '@baobab/core/errors/kinds.ts';
import type { ErrorWords } from '../dialects/dialect.ts';
import { ALL_DIALECTS } from '../dialects/dialects.ts';
import { noTokenRoute, UpstreamFailure } from './failure.ts';

/** What is known of the request when its error answer is read. */
export interface RefusedRequest {
  slug: string;
  /** The upstream's own name for the model, which clients never see. */
  upstreamName: string;
  contextLength: number;
  /** The field that a context error is about, for example `['messages']` or `['inputs', 3]`. */
  field: FieldPath;
  forTokens?: boolean | undefined;
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
  const message = text(inner.message) || text(outer.error) || detail || (typeof body === 'string' ? body : '');
  const answer = errorAnswerIn(message);
  if (answer !== undefined) return readError(answer);
  return {
    message,
    type: text(inner.type) || text(outer.error_type),
    code: text(inner.code),
    param: typeof inner.param === 'string' && /^[\w.[\]]{1,64}$/.test(inner.param) ? inner.param : undefined,
    tokens: count(inner.n_prompt_tokens),
    limit: count(inner.n_ctx),
  };
}

/** Ollama makes the whole error answer of its llama-server the message of its own. */
function errorAnswerIn(message: string): unknown {
  if (!message.startsWith('{"error":')) return undefined;
  try {
    return JSON.parse(message);
  } catch {
    return undefined;
  }
}

/** Matches what any kind of server says. */
function said(word: keyof ErrorWords): RegExp {
  const words = ALL_DIALECTS.flatMap(({ errors: { [word]: own } }) => (own === undefined ? [] : [own.source]));
  return new RegExp([...new Set(words)].join('|'), 'i');
}

const CONTEXT_ERROR = said('tooLong');
/** Older TEI answers 413 for a long input as for a large batch, newer 422 for both; llama-server 500 for an embedding over its physical batch. */
const CONTEXT_STATUSES = new Set([400, 413, 422, 500]);
const LIMIT = new RegExp(`(?:${said('beforeLimit').source})\\D{0,4}(\\d+)`, 'i');
const TOKENS = new RegExp(`(?:${said('beforeTokens').source})\\D{0,4}(\\d+)(?! output)`, 'i');
const BOTH_PARTS = said('bothParts');
const BATCH_LIMIT = said('tooManyInputs');
const TOO_MUCH_OUTPUT = said('tooMuchOutput');
const UNPARSED_OUTPUT = said('unparsed');
/** llama-server and the Ollama above it answer 501; TEI 424; Ollama 400 to a chat with an embedding model; older vLLM 400. */
const UNFIT = said('unfit');
const UNFIT_STATUSES = new Set([400, 424]);
const NEEDED_MODALITIES: Readonly<Record<string, Modality>> = {
  inputs: 'embedding',
  documents: 'rerank',
  messages: 'chat',
  prompt: 'chat',
};

/** The catalog says that the model can do more than its engine can. llama-server answers 500 to these. */
const UNSUPPORTED: readonly { said: RegExp; field?: FieldPath; meaning: string }[] = [
  {
    said: said('noImages'),
    meaning: 'takes no images',
  },
  {
    said: said('noTools'),
    field: ['tools'],
    meaning: 'cannot call tools',
  },
  { said: said('noThinking'), field: ['reasoningEffort'], meaning: 'does not reason' },
];
const UNSUPPORTED_STATUSES = new Set([400, 422, 500]);

const SETUP_STATUSES = new Set([401, 402, 403, 404, 405]);
/** A request may cause these too: a filter in front of the upstream refuses its text, or a gateway does not know a name in it. */
const REQUEST_STATUSES = new Set([403, 404]);
/** A 404 that names the model is about its name, not about the route. */
const MODEL = /\bmodel\b/i;

function contextError(error: UpstreamError, request: RefusedRequest): ApiError {
  const inTokens = !/\d characters/.test(error.message);
  const numberIn = (pattern: RegExp) =>
    inTokens ? count(Number(pattern.exec(error.message)?.[1] ?? Number.NaN)) : undefined;
  const limit = error.limit ?? numberIn(LIMIT) ?? request.contextLength;
  const tokens = error.tokens ?? numberIn(TOKENS);
  const { output, input } = BOTH_PARTS.exec(error.message)?.groups ?? {};
  const [promptTokens, maxTokens] = [Number(input), Number(output)];
  if (maxTokens > 0 && promptTokens < limit) return errors.answerTooLong({ promptTokens, maxTokens, limit });
  if (TOO_MUCH_OUTPUT.test(error.message)) {
    return new ApiError(
      'context_length_exceeded',
      fieldText`The prompt and ${MAX_TOKENS} together must fit into the ${limit} tokens of this model.`,
      { field: MAX_TOKENS },
    );
  }
  const field = exactField(request.field, error.param);
  if (tokens !== undefined && tokens > limit) return errors.contextTooLong(field, tokens, limit);
  return errors.contextFarTooLong(field, limit);
}

/** Another Baobab names the input or message that is too long: `input[3]` makes `['inputs']` more exact. */
function exactField(field: FieldPath, param: string | undefined): FieldPath {
  const [name = '', ...rest] = (param ?? '').match(/\w+/g) ?? [];
  if (field.length > 1 || name === '' || !fieldName(field).startsWith(name)) return field;
  return [...field, ...rest.map((part) => (/^\d+$/.test(part) ? Number(part) : part))];
}

const MAX_MESSAGE_LENGTH = 300;

/** Removes from an upstream's message what shows where and under which name the model runs. */
export function sanitize(
  message: string,
  { slug, upstreamName }: Pick<RefusedRequest, 'slug' | 'upstreamName'>,
): string {
  let clean = message
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/\S+/gi, '…')
    .replace(/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '…')
    .replace(/\blocalhost(?::\d+)?\b/gi, '…')
    .replace(/(?<![\w.])(?:\/[\w.@-]+){2,}\/?/g, '…');
  if (upstreamName !== '') clean = clean.replaceAll(upstreamName, slug);
  clean = clean.replace(/\s+/g, ' ').trim();
  return clean.length > MAX_MESSAGE_LENGTH ? `${clean.slice(0, MAX_MESSAGE_LENGTH - 1)}…` : clean;
}

const reasonOf = (error: UpstreamError, request: RefusedRequest): string =>
  sanitize(error.message, request).replace(/\.$/, '') || 'it gave no reason';

/** Another Baobab has the same codes, and OpenAI some of them. Only codes about the request itself are passed on. */
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
function ownRefusal(code: ErrorCode, error: UpstreamError, request: RefusedRequest): ApiError {
  const message = sanitize(error.message, request);
  if (!/^max_(completion_)?tokens$/.test(error.param ?? '')) return new ApiError(code, message, { field: error.param });
  const texts = message.split(MAX_TOKENS_NAME);
  const text = texts.flatMap((part, index) => (index === 0 ? [part] : [MAX_TOKENS, part]));
  return new ApiError(code, text, { field: MAX_TOKENS });
}

/** Turns an error answer, or an error inside a stream, into what the client and the router need to know. */
export function failureFromAnswer(
  status: number,
  body: unknown,
  request: RefusedRequest,
  retryAfter?: string | undefined,
): UpstreamFailure {
  const error = readError(body);
  const detail = `status ${status}: ${error.message.slice(0, 1_000)}`;
  const unavailable = (reason: string) => errors.modelUnavailable(request.slug, reason);

  const isContext =
    error.type === 'exceed_context_size_error' ||
    error.code === 'context_length_exceeded' ||
    (CONTEXT_STATUSES.has(status) && CONTEXT_ERROR.test(error.message));
  if (isContext) return new UpstreamFailure('rejected', contextError(error, request), detail);

  if (status === 429) {
    const seconds = Number(retryAfter);
    const wait = Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 60) : 1;
    return new UpstreamFailure('busy', errors.capacityExceeded(wait, 'everything that serves it is busy'), detail);
  }
  if (status === 413 || BATCH_LIMIT.test(error.message)) {
    const { field } = request;
    const text = fieldText`${field} is larger than this model takes in one request.`;
    const tooLarge = new ApiError('context_length_exceeded', text, { field });
    return new UpstreamFailure('too-many', tooLarge, detail);
  }
  if (status === 408 || status === 504) {
    return new UpstreamFailure('timeout', errors.upstreamTimeout('the upstream timed out'), detail);
  }
  if (status === 500 && UNPARSED_OUTPUT.test(error.message)) {
    const message = `The model '${request.slug}' wrote an answer that its engine cannot parse: ${reasonOf(error, request)}.`;
    return new UpstreamFailure(
      'unparsed',
      new ApiError('model_unavailable', message, { field: ['model'], retryAfterSeconds: 1 }),
      detail,
    );
  }
  const isUnfit = error.code === 'wrong_modality' || (UNFIT_STATUSES.has(status) && UNFIT.test(error.message));
  if (status === 501 || isUnfit) {
    const needed = NEEDED_MODALITIES[request.field[0] ?? ''] ?? 'audio';
    return new UpstreamFailure('unfit', errors.unfitEngine(request.slug, needed, reasonOf(error, request)), detail);
  }
  const unsupported = UNSUPPORTED_STATUSES.has(status) && UNSUPPORTED.find(({ said }) => said.test(error.message));
  if (unsupported) {
    const { field = request.field, meaning } = unsupported;
    const message = `The model '${request.slug}' ${meaning}: ${reasonOf(error, request)}.`;
    return new UpstreamFailure('rejected', errors.unsupportedParameter(field, message), detail);
  }
  // TEI answers 424 when its backend failed.
  if (status >= 500 || status === 424) {
    return new UpstreamFailure('broken', unavailable('its upstream failed'), detail);
  }
  if (request.forTokens && status === 404 && !MODEL.test(error.message)) return noTokenRoute(detail);
  if (SETUP_STATUSES.has(status)) {
    const isUpstreamFault = !REQUEST_STATUSES.has(status);
    return new UpstreamFailure('broken', unavailable('its upstream is not set up correctly'), detail, isUpstreamFault);
  }
  const own = REQUEST_CODES.find((code) => code === error.code);
  if (status >= 400 && own !== undefined && error.message !== '') {
    return new UpstreamFailure('rejected', ownRefusal(own, error, request), detail);
  }
  if (status >= 400) {
    const message = `The model refused the request: ${sanitize(error.message, request) || 'it gave no reason'}`;
    return new UpstreamFailure('rejected', errors.invalidParameter(error.param, message), detail);
  }
  return new UpstreamFailure('broken', unavailable('its upstream gave an unexpected answer'), detail);
}
