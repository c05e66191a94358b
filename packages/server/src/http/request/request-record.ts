import type { UpstreamAttempt } from '@baobab/core/domain/attempts.ts';
import type { ChangeOrigin } from '@baobab/core/domain/audit/entry.ts';
import type { Consumption } from '@baobab/core/domain/measures.ts';
import type { Operation } from '@baobab/core/domain/operations.ts';
import type { Principal } from '@baobab/core/domain/principal.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import type { ReportCaller } from '@baobab/core/ports/reports.ts';
import type { Session } from '@baobab/core/ports/sessions.ts';
import type { TurnShare } from '@baobab/core/runtime/turn-shares.ts';
import { shareOf } from '@baobab/core/runtime/work.ts';
import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../services/access/account-keys.ts';
import type { AnswerBody } from './request-text.ts';
import { NOT_LISTED, type RunningRequests, type Stoppable } from './running-requests.ts';

/** What is known about a request until it has ended. The access log and the metrics never hold secrets, prompts or answers. */
export interface RequestRecord extends Stoppable {
  startedAt: number;
  /** The configuration of its route. */
  config: Partial<FastifyContextConfig>;
  principal: Principal | undefined;
  /** Set when it was sent with the cookie of a session. */
  session: Session | undefined;
  model: string | undefined;
  version: string | undefined;
  used: Consumption | undefined;
  /** Where it was served. */
  region: string | undefined;
  costNanoUsd: number;
  firstTokenMs: number | null;
  /** Calls to upstreams; undefined without one. */
  attempts: UpstreamAttempt[] | undefined;
  errorCode: string | undefined;
  errorMessage: string | undefined;
  /** Only for accounts that keep prompts and answers. */
  answer: AnswerBody | undefined;
  replayed: boolean;
  /** It has asked for a report. */
  isReport: boolean;
  /** Aborts when the client disconnects or the service stops before the answer has ended; created on first use. */
  disconnect: AbortController | undefined;
  /** The limits have admitted it, and it is not settled yet. */
  isRunning: boolean;
  /** Writes the log line of a request whose client has left, once its tokens are known. */
  onEnded: (() => void) | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route does. `domain/operations.ts` has the scope that a key needs for it. */
    operation?: Operation;
  }
  interface FastifyRequest {
    record: RequestRecord;
  }
  interface FastifyInstance {
    /** Used at shutdown to end requests that take too long. */
    running: RunningRequests;
  }
}

export const createRecord = (startedAt: number, config: RequestRecord['config'] = {}): RequestRecord => ({
  startedAt,
  config,
  principal: undefined,
  session: undefined,
  model: undefined,
  version: undefined,
  used: undefined,
  region: undefined,
  costNanoUsd: 0,
  firstTokenMs: null,
  attempts: undefined,
  errorCode: undefined,
  errorMessage: undefined,
  answer: undefined,
  replayed: false,
  isReport: false,
  disconnect: undefined,
  isRunning: false,
  onEnded: undefined,
  index: NOT_LISTED,
});

/** The caller; only for routes behind authentication. */
export function principalOf(request: FastifyRequest): Principal {
  const { principal } = request.record;
  if (principal === undefined) throw errors.internal(new Error('a route without authentication asked for its caller'));
  return principal;
}

/** The share of the event loop that a request belongs to. */
export const turnShareOf = ({ account, key }: Principal): TurnShare =>
  shareOf({ accountId: account.id, priority: key.priority, weight: account.weight });

/** For whom a route makes a report, which ends when its client leaves. */
export function reportCallerOf(reply: FastifyReply): ReportCaller {
  reply.request.record.isReport = true;
  return { accountId: principalOf(reply.request).account.id, signal: disconnectSignal(reply) };
}

/** Aborts when the client disconnects or the service stops before the answer has ended; not after a normal end. */
export function disconnectSignal({ request, raw }: FastifyReply): AbortSignal {
  const { record } = request;
  if (record.disconnect === undefined) {
    record.disconnect = new AbortController();
    // A destroyed request was removed already and would stay in the list forever.
    if (!raw.destroyed) request.server.running.add(record);
  }
  // The client may have disconnected while the body was read and the key was looked up.
  if (raw.destroyed && !raw.writableFinished) record.disconnect.abort(errors.clientCancelled());
  return record.disconnect.signal;
}

/** Who asks for a change with this request, for the audit log. */
export function originOf(request: FastifyRequest): ChangeOrigin {
  const { account, key } = principalOf(request);
  return {
    via: request.record.session === undefined ? 'api' : 'console',
    actor: { id: key.id, name: key.name, accountId: account.id, accountName: account.name, host: null },
    requestId: request.id,
    address: request.ip,
  };
}

export const auditedCaller = (request: FastifyRequest): Caller => ({ ...principalOf(request), by: originOf(request) });
