import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../../domain/principal.ts';
import { errors } from '../../errors/errors.ts';
import { NOWHERE, type RunningRequests, type Stoppable } from './running-requests.ts';

/** What the access log and the metrics tell about a request. Never secrets, prompts or answers. */
export interface RequestRecord extends Stoppable {
  startedAt: number;
  /** Of its route. */
  config: Partial<FastifyContextConfig>;
  principal: Principal | undefined;
  model: string | undefined;
  promptTokens: number | undefined;
  completionTokens: number | undefined;
  errorCode: string | undefined;
  replayed: boolean;
  /** Fires when the client goes away before the answer has ended, or the service; made when somebody asks for it. */
  disconnect: AbortController | undefined;
}

declare module 'fastify' {
  interface FastifyRequest {
    record: RequestRecord;
  }
  interface FastifyInstance {
    /** With it a shutdown ends what it cannot wait for. */
    running: RunningRequests;
  }
}

export const createRecord = (startedAt: number, config: RequestRecord['config'] = {}): RequestRecord => ({
  startedAt,
  config,
  principal: undefined,
  model: undefined,
  promptTokens: undefined,
  completionTokens: undefined,
  errorCode: undefined,
  replayed: false,
  disconnect: undefined,
  place: NOWHERE,
});

/** The caller; only for routes behind authentication. */
export function principalOf(request: FastifyRequest): Principal {
  const { principal } = request.record;
  if (principal === undefined) throw errors.internal(new Error('a route without authentication asked for its caller'));
  return principal;
}

/** Fires when the client goes away before the answer has ended, or when the service can wait no longer; not after a normal end. */
export function disconnectSignal({ request, raw }: FastifyReply): AbortSignal {
  const { record } = request;
  if (record.disconnect === undefined) {
    record.disconnect = new AbortController();
    // Otherwise it has left already, and nobody would take it out again.
    if (!raw.destroyed) request.server.running.add(record);
  }
  // It may have gone while its body was read and its key was looked up.
  if (raw.destroyed && !raw.writableFinished) record.disconnect.abort(errors.clientCancelled());
  return record.disconnect.signal;
}
