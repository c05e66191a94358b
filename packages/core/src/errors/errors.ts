import { ApiError } from './api-error.ts';
import { type Field, type FieldPath, type FieldText, fieldText } from './fields.ts';

/** Enough for this process, or its replacement, to start. */
const RESTART_SECONDS = 5;
/** Failed engines and upstreams are retried within this time. */
const RECOVERY_SECONDS = 5;
/** Something else of the same client has probably ended by then. */
const FREED_SECONDS = 5;
const SHOWN_LENGTH = 200;
/** A value that a client sent, shortened for a message. */
const shown = (text: string): string => (text.length <= SHOWN_LENGTH ? text : `${text.slice(0, SHOWN_LENGTH)}…`);

const MODEL: FieldPath = ['model'];
/** Fields of embeddings, rerank and token counts. */
const WITHOUT_MESSAGES: ReadonlySet<unknown> = new Set(['inputs', 'query', 'documents', 'tokens']);
const quoted = (field: Field): string | FieldPath => (typeof field === 'string' ? `'${field}'` : field);

const contextTooLong = (field: Field, counted: string, limit: number) =>
  new ApiError(
    'context_length_exceeded',
    WITHOUT_MESSAGES.has(typeof field === 'object' ? field[0] : field)
      ? fieldText`This model's maximum context length is ${limit} tokens. However, your ${quoted(field)} resulted in ${counted}. Shorten or split it.`
      : fieldText`This model's maximum context length is ${limit} tokens. However, your messages resulted in ${counted}. Shorten ${quoted(field)} or split it.`,
    { field },
  );

/** Named constructors, so that each kind of error has one wording. */
export const errors = {
  invalidJson: (detail: string) => new ApiError('invalid_json', `The request body is not valid JSON: ${detail}.`),
  invalidParameter: (field: Field | undefined, message: string | FieldText) =>
    new ApiError('invalid_parameter', message, { field }),
  missingParameter: (field: Field) =>
    new ApiError('missing_parameter', fieldText`The parameter ${quoted(field)} is required.`, { field }),
  missingApiKey: () =>
    new ApiError('missing_api_key', "No API key was sent. Send it as 'Authorization: Bearer <key>'."),
  unreadableApiKey: () =>
    new ApiError('missing_api_key', "The Authorization header must be 'Bearer <key>', with one space."),
  invalidApiKey: () => new ApiError('invalid_api_key', 'This API key is not valid. Check that it was copied whole.'),
  expiredApiKey: (atMs: number) =>
    new ApiError('expired_api_key', `This API key expired at ${new Date(atMs).toISOString()}. Ask for a new one.`),
  sessionExpired: () => new ApiError('session_expired', 'This session has ended. Sign in again.'),
  csrfTokenInvalid: () =>
    new ApiError(
      'csrf_token_invalid',
      'Requests that change something with a session cookie need the header X-Baobab-CSRF, with the token from GET /v1/sessions/current.',
    ),
  tooManySignIns: (retryAfterSeconds: number) =>
    new ApiError('rpm_exceeded', 'Too many sign-ins from this address have failed. Try again later.', {
      retryAfterSeconds,
    }),
  keyRevoked: () => new ApiError('key_revoked', 'This API key was revoked. Ask for a new one.'),
  accountSuspended: () =>
    new ApiError('account_suspended', 'This account is suspended. Ask the operator of this service to resume it.'),
  addressNotAllowed: (address: string | undefined) =>
    new ApiError(
      'address_not_allowed',
      `This API key may not be used from ${address === undefined ? 'an unknown address' : `the address ${address}`}. Ask for a change of its allowed_addresses.`,
    ),
  insufficientScope: (needed: string) =>
    new ApiError(
      'insufficient_scope',
      `This API key lacks the scope '${needed}' that this endpoint needs. Use a key that has it.`,
    ),
  keyBeyondRights: () =>
    new ApiError(
      'key_not_allowed',
      'This key has rights that yours lacks. Ask an operator of this service to change it.',
    ),
  keyHasLimits: () =>
    new ApiError(
      'key_not_allowed',
      'Your key has limits of its own, and more keys would bypass them. Ask an operator for a key without limits.',
    ),
  tooManyKeys: (most: number) =>
    new ApiError(
      'key_not_allowed',
      `The account has ${most} keys, the most it may have. Revoke some; a revoked key counts for a day after it was made.`,
    ),
  tooManyKeyChanges: (most: number) =>
    new ApiError(
      'key_not_allowed',
      `Keys of the account were changed ${most} times in the last 24 hours, the most that is allowed. Try again later.`,
    ),
  /** `what`: of what there are too many, such as 'uploads of this account are running'. */
  tooManyAtOnce: (what: string, advice = 'Wait until some have ended.') =>
    new ApiError('concurrency_exceeded', `Too many ${what}. ${advice}`, { retryAfterSeconds: FREED_SECONDS }),
  modelNotAllowed: (slug: string) =>
    new ApiError(
      'model_not_allowed',
      `This API key may not use the model '${slug}'. GET /v1/models lists those that it may use.`,
      { field: MODEL },
    ),
  regionNotAllowed: (region: string) =>
    new ApiError(
      'region_not_allowed',
      `This API key may not use the region '${shown(region)}'. GET /v1/keys/me lists those that it may use.`,
    ),
  /** `meant`: models that the client may use, of which it probably wanted one. */
  modelNotFound: (slug: string, meant: readonly string[] = []) =>
    new ApiError(
      'model_not_found',
      `The model '${shown(slug)}' does not exist. ` +
        (meant.length === 0 ? 'GET /v1/models lists the ones that do.' : `Did you mean '${meant.join("' or '")}'?`),
      { field: MODEL },
    ),
  fileNotFound: (id: string, field?: Field) =>
    new ApiError('file_not_found', `There is no file '${shown(id)}'. It may have been deleted or have expired.`, {
      field,
    }),
  responseNotFound: (id: string, field?: Field) =>
    new ApiError(
      'response_not_found',
      `There is no response '${shown(id)}'. It was not stored, was deleted or has expired.`,
      { field },
    ),
  previousResponseNotFound: (id: string) =>
    new ApiError(
      'previous_response_not_found',
      `There is no response '${shown(id)}' to continue. It was not stored, was deleted or has expired.`,
      { field: ['previousResponseId'] },
    ),
  conversationNotFound: (id: string) =>
    new ApiError('conversation_not_found', `There is no conversation '${shown(id)}'. It was deleted or has expired.`, {
      field: ['conversation'],
    }),
  itemNotFound: (id: string, field?: Field) =>
    new ApiError('item_not_found', `There is no item '${shown(id)}'.`, { field }),
  interruptedTooOften: () =>
    new ApiError('internal_error', 'The response was interrupted too often by restarts of the service. Send it again.'),
  batchNotFound: (id: string) => new ApiError('batch_not_found', `There is no batch '${shown(id)}'.`),
  requestNotFound: (id: string) =>
    new ApiError('request_not_found', `There is no request '${shown(id)}', or it is too old to be listed.`),
  unsupportedPurpose: (purpose: string, accepted: readonly string[]) =>
    new ApiError(
      'unsupported_purpose',
      `The purpose '${shown(purpose)}' is not supported. Accepted: ${accepted.map((each) => `'${each}'`).join(', ')}.`,
      { field: ['purpose'] },
    ),
  fileTooLarge: (limitBytes: number) =>
    new ApiError('file_too_large', `The file is larger than the limit of ${limitBytes} bytes.`, { field: ['file'] }),
  unknownEndpoint: (method: string, path: string, hint = 'See /docs for those that exist.') =>
    new ApiError('unknown_endpoint', `There is no endpoint ${method} ${shown(path)}. ${hint}`),
  regionUnavailable: (slug: string, region: string, served: readonly string[]) =>
    new ApiError(
      'region_unavailable',
      `The model '${slug}' is not served in the region '${shown(region)}'. ` +
        (served.length > 0
          ? `It is served in: ${served.join(', ')}. Change or remove X-Service-Region.`
          : 'It is not served anywhere at the moment.'),
    ),
  bodyTooLarge: (limitBytes: number) =>
    new ApiError(
      'body_too_large',
      `The request body is larger than the limit of ${limitBytes} bytes. Send less at once, or large files to /v1/files.`,
    ),
  /** In OpenAI's words, by which clients know that they must shorten a conversation. What is no conversation is named instead. */
  contextTooLong: (field: Field, tokens: number, limit: number) => contextTooLong(field, `${tokens} tokens`, limit),
  /** The prompt alone would fit. Also in OpenAI's words. */
  answerTooLong: ({ promptTokens, maxTokens, limit }: { promptTokens: number; maxTokens: number; limit: number }) =>
    new ApiError(
      'context_length_exceeded',
      fieldText`This model's maximum context length is ${limit} tokens. However, you requested ${promptTokens + maxTokens} tokens (${promptTokens} in the messages, ${maxTokens} in the completion). Set ${['maxTokens']} to at most ${limit - promptTokens} or shorten the prompt.`,
      { field: ['maxTokens'] },
    ),
  historyTooLong: (field: Field, limitBytes: number) =>
    new ApiError(
      'context_length_exceeded',
      fieldText`The history in ${quoted(field)} has more than ${limitBytes} bytes or too many parts. No model reads that much: compact it, or start over.`,
      { field },
    ),
  /** Without the exact number of tokens, for texts that are refused before they are counted. Clients look for the words up to `tokens`. */
  contextFarTooLong: (field: Field, limit: number) => contextTooLong(field, `${limit + 1} tokens or more`, limit),
  tooManyInputs: (field: Field, count: number, limit: number) =>
    new ApiError(
      'too_many_inputs',
      fieldText`${quoted(field)} has ${count} items; at most ${limit} are accepted in one request. Send several.`,
      { field },
    ),
  tooManyItems: (field: Field, count: number, limit: number) =>
    new ApiError('validation_failed', fieldText`${quoted(field)} has ${count} items; at most ${limit} are accepted.`, {
      field,
    }),
  unsupportedParameter: (field: Field, message: string | FieldText) =>
    new ApiError('unsupported_parameter', message, { field }),
  wrongModality: (slug: string, modality: string, needed: string) =>
    new ApiError(
      'wrong_modality',
      `The model '${slug}' is of modality '${modality}'; this endpoint needs a model of modality '${needed}'. ` +
        `GET /v1/models?modality=${needed} lists them.`,
      { field: MODEL },
    ),
  /** The catalog says that the model can do this, but the engine behind it was started for something else. */
  unfitEngine: (slug: string, needed: string, reason: string) =>
    new ApiError(
      'wrong_modality',
      `The engine that runs the model '${slug}' refuses requests of modality '${needed}': ${reason}. ` +
        `Use another model of GET /v1/models?modality=${needed}, or ask the operator to start the engine for it.`,
      { field: MODEL },
    ),
  validationFailed: (field: Field | undefined, message: string | FieldText) =>
    new ApiError('validation_failed', message, { field }),
  capacityExceeded: (retryAfterSeconds: number, detail: string) =>
    new ApiError('capacity_exceeded', `The queue of this model is full: ${detail}. Try again later.`, {
      retryAfterSeconds,
    }),
  storageFull: () =>
    new ApiError('capacity_exceeded', 'The server is low on disk space and stores nothing new. Try again later.', {
      retryAfterSeconds: 60,
    }),
  clientCancelled: () => new ApiError('client_cancelled', 'The client closed the request.'),
  shuttingDown: () =>
    new ApiError(
      'model_unavailable',
      'The service is shutting down and could not finish this request. Send it again.',
      {
        retryAfterSeconds: RESTART_SECONDS,
      },
    ),
  internal: (cause?: unknown) =>
    new ApiError(
      'internal_error',
      'The server failed to handle this request. Its operator can find the cause by the request id.',
      {
        cause,
      },
    ),
  /** The request may have been carried out before its answer was lost. */
  storageUnavailable: (cause: unknown) =>
    new ApiError(
      'storage_unavailable',
      'The storage of this service does not answer at the moment. Send the request again in a few seconds, with the same ' +
        'Idempotency-Key if it had one.',
      { retryAfterSeconds: RECOVERY_SECONDS, cause },
    ),
  modelUnavailable: (slug: string, reason: string, cause?: unknown) =>
    new ApiError('model_unavailable', `The model '${slug}' cannot be served now: ${reason}.`, {
      field: MODEL,
      retryAfterSeconds: RECOVERY_SECONDS,
      cause,
    }),
  /** No engine got the request. */
  upstreamsAway: (slug: string, reason: string, cause?: unknown) =>
    errors.modelUnavailable(slug, reason, new UpstreamsAwayError(reason, { cause })),
  /** Unlike an outage, only an operator can change this. `remedy` says what to configure. */
  modelNotServed: (slug: string, remedy: string, cause?: unknown) =>
    new ApiError('model_unavailable', `The model '${slug}' is in the catalog but is not served here: ${remedy}.`, {
      field: MODEL,
      shouldRetry: false,
      cause,
    }),
  upstreamTimeout: (what: string) => new ApiError('upstream_timeout', `The model did not answer in time: ${what}.`),
};

/** The cause of an error when no engine got the request: whatever it contains, it cannot be at fault. */
export class UpstreamsAwayError extends Error {
  override readonly name = 'UpstreamsAwayError';
}
