import type { Socket } from 'node:net';
import { errors } from '@baobab/core/errors/errors.ts';
import type { Logger } from '@baobab/core/ports/logger.ts';
import { createId } from '@baobab/core/runtime/ids.ts';
import type { onRequestHookHandler } from 'fastify';

export interface ParserErrorDependencies {
  headerLimitBytes: number;
  logger: Pick<Logger, 'info'>;
}

/** Time for the client to read the answer. Without a limit, a client that never closes its side keeps the connection. */
const CLOSE_GRACE_MS = 1_000;

function messageOf({ code }: NodeJS.ErrnoException, headerLimitBytes: number): string {
  if (code === 'HPE_HEADER_OVERFLOW') return `The head of the request is larger than ${headerLimitBytes} bytes.`;
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request did not arrive within the time allowed.';
  return 'This is not a well-formed HTTP request.';
}

/** Node's parser refused the bytes before there was a request: writes an answer in the usual error shape and closes. */
export function answerParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  { headerLimitBytes, logger }: ParserErrorDependencies,
): void {
  // Browsers open connections before they need them, and would read this as the answer to their first request.
  const isUnused = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && socket.bytesRead === 0;
  if (error.code === 'ECONNRESET' || isUnused || !socket.writable) {
    socket.destroy();
    return;
  }
  const answer = errors.invalidParameter(undefined, messageOf(error, headerLimitBytes));
  const body = JSON.stringify(answer.toBody());
  const reqId = createId('req');
  logger.info({ reqId, status: answer.status, code: answer.code, reason: error.code }, 'request');
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
      `X-Request-ID: ${reqId}\r\nConnection: close\r\n\r\n${body}`,
  );
  const grace = setTimeout(() => socket.destroy(), CLOSE_GRACE_MS);
  socket.once('close', () => clearTimeout(grace));
}

const HOST_LENGTH = 4;

/** Node uses the first `Host` of a request and a proxy before it may use the last: they would not mean the same server. */
function hasSecondHost(rawHeaders: readonly string[]): boolean {
  let hosts = 0;
  // Names and values take turns.
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index];
    if (name?.length === HOST_LENGTH && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1;
}

/** The rest of what the client sends on this connection is not read: it may be meant for another server. */
export const refuseSecondHost: onRequestHookHandler = (request, reply, done) => {
  if (!hasSecondHost(request.raw.rawHeaders)) {
    done();
    return;
  }
  reply.header('connection', 'close');
  done(errors.invalidParameter(undefined, 'The request has more than one Host header.'));
};
