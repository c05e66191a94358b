import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ApiError } from '../../errors/api-error.ts';
import { errors } from '../../errors/errors.ts';
import { principalOf } from './request-record.ts';

/** To be called before an answer that takes long. Throws when its account has too many of them running. */
export type AccountLimit = (request: FastifyRequest, reply: FastifyReply) => void;

export function createAccountLimit(most: number, refusal: () => ApiError): AccountLimit {
  const running = new Map<string, number>();
  const change = (accountId: string, by: 1 | -1): void => {
    const count = (running.get(accountId) ?? 0) + by;
    if (count === 0) running.delete(accountId);
    else running.set(accountId, count);
  };
  return (request, reply) => {
    const { id } = principalOf(request).account;
    // Its `close` has been emitted already, and the answer would be counted forever.
    if (reply.raw.destroyed) throw errors.clientCancelled();
    if ((running.get(id) ?? 0) >= most) throw refusal();
    change(id, 1);
    // Follows a normal and an early end.
    reply.raw.once('close', () => change(id, -1));
  };
}
