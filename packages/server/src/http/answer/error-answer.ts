import { ApiError } from '@baobab/core/errors/api-error.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type ErrorCode, KINDS } from '@baobab/core/errors/kinds.ts';
import { toClientError } from '@baobab/core/errors/store-unavailable.ts';
import type { RepeatedFailure } from '@baobab/core/runtime/repeated-failure.ts';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { dialectRules } from './dialect.ts';
import { nameFields } from './field-names.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The methods of the endpoint at a path, which may have ids in it. Empty when there is no such path. */
    methodsOf(path: string): string[];
  }
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Writes the errors of a route whose API has a shape of its own. */
    errorBody?: ((error: ApiError, requestId: string) => object) | undefined;
  }
  interface FastifyInstance {
    /** Requests that failed because the storage did not answer. */
    storageOutage: Pick<RepeatedFailure, 'failed'>;
  }
}

/** Fastify's own errors, by code. Any other error that is not an `ApiError` is a bug and becomes a plain 500. */
function fromFramework(error: FastifyError, request: FastifyRequest): ApiError | undefined {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return errors.bodyTooLarge(request.routeOptions.bodyLimit ?? request.server.initialConfig.bodyLimit ?? 0);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return errors.invalidParameter(
        undefined,
        `The content type '${String(request.headers['content-type'] ?? '').slice(0, 100)}' is not accepted here. Send application/json.`,
      );
    case 'FST_ERR_CTP_EMPTY_JSON_BODY':
      return errors.invalidJson('it is empty');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return errors.invalidParameter(undefined, 'The body is not as long as its Content-Length says.');
    case 'FST_ERR_BAD_URL':
      return errors.invalidParameter(undefined, 'The path of the address is not properly percent-encoded.');
    default:
      return undefined;
  }
}

/** A compressed body is not JSON, and the client should know why. */
function namePacking(error: ApiError, { headers }: FastifyRequest): ApiError {
  const encoding = headers['content-encoding'];
  if (encoding === undefined) return error;
  return errors.invalidJson(
    `it came with 'Content-Encoding: ${encoding.slice(0, 100)}', and bodies are only read without`,
  );
}

export function toApiError(error: unknown, request: FastifyRequest): ApiError {
  if (error instanceof ApiError && error.code === 'invalid_json') return namePacking(error, request);
  if (error instanceof ApiError) return nameFields(error, request.record.config.fieldNames, request.body);
  const framework = error as FastifyError;
  const known = fromFramework(framework, request);
  if (known !== undefined) return known;
  const status = framework.statusCode;
  if (typeof status === 'number' && status >= 400 && status < 500) {
    request.log.warn({ err: error }, 'a framework error has no message of its own, sent a general one');
    return errors.invalidParameter(undefined, 'The request cannot be understood.');
  }
  return toClientError(error);
}

/** The messages of an error and its causes, on one line. */
function reasonOf(error: unknown): string | undefined {
  const messages: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (!messages.some((each) => each.includes((cause as Error).message))) messages.push(cause.message);
  }
  return messages.length === 0 ? undefined : messages.join(': ');
}

/** For the log and the list of requests. */
export function noteFailure({ record }: FastifyRequest, { code, brief }: ApiError): void {
  record.errorCode = code;
  record.errorMessage = brief;
}

/** Logs errors that the client did not cause. An outage of the storage fails thousands of requests a second, and is logged once. */
export function logFailure(request: FastifyRequest, answer: ApiError, text: string): void {
  const { code, status, cause } = answer;
  if (code === 'storage_unavailable') request.server.storageOutage.failed(cause);
  else if (status === 500) request.log.error({ err: cause ?? answer }, text);
  else if (status > 500) {
    // Without a stack: it says nothing, and there may be thousands of these in a second.
    request.log.warn({ code, reason: reasonOf(cause) }, answer.summary);
    if (cause !== undefined) request.log.debug({ err: cause }, 'stack of the failure');
  }
}

/** Sets the status and the headers of an error, and returns its body. */
export function writeError(error: unknown, request: FastifyRequest, reply: FastifyReply): string {
  const answer = toApiError(error, request);
  noteFailure(request, answer);
  logFailure(request, answer, 'a request failed unexpectedly');
  // The official clients would retry these within seconds, when neither a region nor a spent budget has changed.
  if (answer.status === 409 || answer.code === 'budget_exceeded' || !answer.shouldRetry)
    reply.header('x-should-retry', 'false');
  if (answer.retryAfterSeconds !== undefined) reply.header('retry-after', answer.retryAfterSeconds);
  const { errorBody } = request.record.config;
  if (errorBody !== undefined) reply.header('request-id', request.id);
  const body = errorBody?.(answer, request.id) ?? answer.toBody();
  reply.status(dialectRules(request.record.principal).status(answer.status)).type('application/json; charset=utf-8');
  return JSON.stringify(body);
}

export const sendError = (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply =>
  reply.send(writeError(error, request, reply));

const METHODS = ['GET', 'POST', 'DELETE'] as const;

/** Names the usual mistakes: another method, a slash too many, and a base address without `/v1` or with two of them. */
function endpointHint({ server, method }: FastifyRequest, path: string): string | undefined {
  if (path.startsWith('/v1/v1/')) return 'The base address has /v1 twice.';
  if (server.methodsOf(`/v1${path}`).includes(method)) return 'The base address of clients ends in /v1.';
  if (path.endsWith('/') && server.methodsOf(path.slice(0, -1)).includes(method)) return 'Leave out the / at its end.';
  const methods = server.methodsOf(path);
  const others = METHODS.filter((other) => other !== method && methods.includes(other));
  return others.length === 0 ? undefined : `It takes ${others.join(', ').replace(/, (?=\w+$)/, ' and ')}.`;
}

/** Also for a wrong method: the list of errors has no 405. */
export function notFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = request.url.split('?')[0] ?? '';
  return sendError(errors.unknownEndpoint(request.method, path, endpointHint(request, path)), request, reply);
}

export const ErrorResponse = Type.Object(
  {
    error: Type.Object({
      message: Type.String(),
      type: Type.String(),
      code: Type.Enum(Object.keys(KINDS) as ErrorCode[]),
      param: Type.Union([Type.String(), Type.Null()]),
    }),
  },
  { $id: 'Error', description: 'The shape of every error' },
);

/** The documented errors of a route behind authentication. */
export const commonErrors = {
  400: ErrorResponse,
  401: ErrorResponse,
  403: ErrorResponse,
  404: ErrorResponse,
  429: ErrorResponse,
  500: ErrorResponse,
  503: ErrorResponse,
};

export const inferenceErrors = {
  ...commonErrors,
  409: ErrorResponse,
  413: ErrorResponse,
  422: ErrorResponse,
  504: ErrorResponse,
};
