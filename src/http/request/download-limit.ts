import type { FastifyReply, FastifyRequest } from 'fastify';
import { errors } from '../../errors/errors.ts';
import { principalOf } from './request-record.ts';

/** Of each account. A download keeps a connection to the blob store busy for as long as its client takes to read. */
const MAX_DOWNLOADS = 64;

/** Returns a function to call before a download. It throws 429 when the account has too many running. */
export function createDownloadLimit(): (request: FastifyRequest, reply: FastifyReply) => void {
  const running = new Map<string, number>();
  const change = (accountId: string, by: 1 | -1): void => {
    const count = (running.get(accountId) ?? 0) + by;
    if (count === 0) running.delete(accountId);
    else running.set(accountId, count);
  };
  return (request, reply) => {
    const { id } = principalOf(request).account;
    // Its `close` has been emitted already, and the download would be counted for ever.
    if (reply.raw.destroyed) throw errors.clientCancelled();
    if ((running.get(id) ?? 0) >= MAX_DOWNLOADS) throw errors.tooManyDownloads();
    change(id, 1);
    // Follows a normal and an early end.
    reply.raw.once('close', () => change(id, -1));
  };
}
