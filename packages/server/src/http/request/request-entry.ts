import { NOTHING_USED } from '@baobab/core/domain/measures.ts';
import { type ErrorCode, KINDS } from '@baobab/core/errors/kinds.ts';
import type { RequestEntry } from '@baobab/core/ports/request-log.ts';
import type { FastifyRequest } from 'fastify';
import { principalOf } from './request-record.ts';

const NO_ATTEMPTS: RequestEntry['attempts'] = [];

export interface RequestEnd {
  endpoint: string;
  status: number;
  durationMs: number;
}

/** What the list of requests holds about a request that has ended. */
export function entryOf(request: FastifyRequest, { endpoint, status, durationMs }: RequestEnd): RequestEntry {
  const { record } = request;
  const { account, key } = principalOf(request);
  const code = status === 499 ? 'client_cancelled' : record.errorCode;
  // A stream that failed has begun with 200.
  const failed = code !== undefined && status < 400 ? KINDS[code as ErrorCode]?.status : undefined;
  return {
    id: request.id,
    time: Date.now(),
    accountId: account.id,
    keyId: key.id,
    endpoint,
    model: record.model ?? null,
    version: record.version ?? null,
    region: record.region ?? null,
    status: failed ?? status,
    code: code ?? null,
    ...(record.used ?? NOTHING_USED),
    costNanoUsd: record.costNanoUsd,
    durationMs: Math.round(durationMs),
    firstTokenMs: record.firstTokenMs === null ? null : Math.round(record.firstTokenMs),
    replayed: record.replayed,
    attempts: record.attempts ?? NO_ATTEMPTS,
  };
}
