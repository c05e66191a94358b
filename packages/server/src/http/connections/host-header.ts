import { errors } from '@baobab/core/errors/errors.ts';
import type { onRequestHookHandler } from 'fastify';

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
