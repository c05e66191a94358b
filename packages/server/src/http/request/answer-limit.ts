import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createAccountAmounts } from '../../admission/account-amounts.ts';
import { principalOf } from './request-record.ts';

/** For each account. A download keeps a connection to the blob store busy for as long as its client takes to read. */
const MAX_DOWNLOADS = 64;

/** To be called before an answer that takes long. Throws when its account has too many of them running. */
export type AnswerLimit = (request: FastifyRequest, reply: FastifyReply) => void;

/** `what`: as in `errors.tooManyAtOnce`. */
export function createAnswerLimit(most: number, what: string): AnswerLimit {
  const running = createAccountAmounts(most);
  return (request, reply) => {
    const { id } = principalOf(request).account;
    // Its `close` has been emitted already, and the answer would be counted forever.
    if (reply.raw.destroyed) throw errors.clientCancelled();
    if (!running.add(id, 1)) throw errors.tooManyAtOnce(what);
    // Follows a normal and an early end.
    reply.raw.once('close', () => running.remove(id, 1));
  };
}

export const createDownloadLimit = (): AnswerLimit =>
  createAnswerLimit(MAX_DOWNLOADS, 'downloads of this account are running');
