import { createHash } from 'node:crypto';
import { ApiError } from '@baobab/core/errors/api-error.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** The first run of a request with an idempotency key. Its answer is stored before its end is sent. */
export interface IdempotentRun {
  billingId: string;
  /** The same when the run is repeated. */
  startedAt: number;
  /** Adds a piece of a streamed answer. */
  take(text: string): void;
  /** Stores the answer of a stream that ended well. */
  finish(headers: Record<string, string>): Promise<void>;
  /** Stores nothing: the answer is not complete. */
  abandon(status: number): Promise<void>;
}

declare module 'fastify' {
  interface FastifyRequest {
    idempotentRun: IdempotentRun | undefined;
    /** SHA-256 of the body as received; only if a key was sent. */
    bodyHash: string | undefined;
  }
}

const KEPT_HEADERS = [
  'content-type',
  'x-served-model',
  'service-deprecated',
  'content-disposition',
  'x-truncated-inputs',
];

export const hashBody = (body: string): string => createHash('sha256').update(body).digest('hex');

export const keptHeaders = (reply: FastifyReply): Record<string, string> =>
  Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => (reply.hasHeader(name) ? [[name, String(reply.getHeader(name))]] : [])),
  );

/** A refusal of an upload for lack of room is not kept: the client may delete files and send it again with its key. */
export async function forgettingRefusal<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError && error.status === 422) await request.idempotentRun?.abandon(error.status);
    throw error;
  }
}
