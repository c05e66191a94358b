import { Readable } from 'node:stream';
import { isInference } from '@baobab/core/domain/operations.ts';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import plugin from 'fastify-plugin';
import type { InferenceService } from '../../inference/pipeline.ts';
import type { Idempotency } from '../../services/idempotency/idempotency.ts';
import type { Run } from '../../services/idempotency/run.ts';
import { writeError } from '../answer/error-answer.ts';
import { createDownloadLimit } from '../request/answer-limit.ts';
import { hashBody, type IdempotentRun, keptHeaders } from '../request/idempotent-run.ts';
import { callerOf, showLimitStatus } from '../request/inference-call.ts';
import { disconnectSignal } from '../request/request-record.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Sent in the first answer only: the stored answer has null there. */
    secretField?: string;
    /** The route reads its JSON body itself, and calls `replayed` after that. */
    readsBody?: boolean;
  }
  interface FastifyInstance {
    /**
     * Sends the stored answer of the first run and returns true, if there was one. Routes that read their body themselves call it
     * with a hash that is equal for equal requests, which raw multipart bytes are not. Inference routes pass the model.
     */
    replayed(request: FastifyRequest, reply: FastifyReply, body: { hash: string; model?: string }): Promise<boolean>;
  }
}

function keyOf({ method, headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  return method === 'POST' && typeof key === 'string' ? key : undefined;
}

/** A secret is sent once and never stored, not even for a retry. */
function withoutSecret(body: Buffer, field: string | undefined): Buffer {
  if (field === undefined) return body;
  return Buffer.from(JSON.stringify({ ...JSON.parse(body.toString()), [field]: null }));
}

function toRun(run: Run, maxBodyBytes: number): IdempotentRun & { complete: Run['complete'] } {
  let pieces: string[] | null = [];
  let bytes = 0;
  return {
    billingId: run.billingId,
    startedAt: run.startedAt,
    complete: run.complete,
    take(text) {
      bytes += Buffer.byteLength(text);
      if (bytes > maxBodyBytes) pieces = null;
      pieces?.push(text);
    },
    finish: (headers) =>
      run.complete({ status: 200, headers, body: pieces === null ? null : Buffer.from(pieces.join('')) }),
    abandon: run.abandon,
  };
}

/** A refusal that could not be stored becomes a server error, because a retry may get another answer. */
function instead(error: unknown, request: FastifyRequest, reply: FastifyReply): string {
  reply.removeHeader('x-should-retry').removeHeader('retry-after');
  return writeError(error, request, reply);
}

/** The model of a JSON body on inference routes. */
function modelOf({ body, routeOptions: { config } }: FastifyRequest): { model?: string } {
  const model = typeof body === 'object' && body !== null && 'model' in body ? body.model : undefined;
  return isInference(config.operation) && typeof model === 'string' ? { model } : {};
}

export interface IdempotencyOptions {
  idempotency: Idempotency;
  inference: Pick<InferenceService, 'limitStatus' | 'checkRights'>;
}

export const idempotencyKeys = plugin<IdempotencyOptions>(async (server, { idempotency, inference }) => {
  const limitDownloads = createDownloadLimit();
  const runs = new WeakMap<FastifyRequest, ReturnType<typeof toRun>>();
  server.decorateRequest('idempotentRun', undefined);
  server.decorateRequest('bodyHash', undefined);

  const replayed: FastifyInstance['replayed'] = async (request, reply, { hash, model }) => {
    const key = keyOf(request);
    if (key === undefined) return false;
    const caller = callerOf(request);
    // Another key of the account may have more rights than this one.
    if (model !== undefined) inference.checkRights(caller, model);
    const { account, key: apiKey } = caller.principal;
    const begun = await idempotency.begin({
      accountId: account.id,
      endpoint: `${request.method} ${decodeURIComponent(request.url.split('?')[0] ?? '')}`,
      key,
      // The same body for other regions is another request.
      bodyHash: hashBody(`${hash}\n${caller.regionPin ?? apiKey.allowedRegions.join()}`),
      keepAnswer: !account.zeroRetention,
      signal: disconnectSignal(reply),
    });
    if (begun.kind === 'run') {
      const run = toRun(begun, idempotency.maxBodyBytes);
      runs.set(request, run);
      request.idempotentRun = run;
      return false;
    }
    const { status, headers, body } = begun.answer;
    if (body instanceof Readable) {
      try {
        limitDownloads(request, reply);
      } catch (error) {
        body.destroy();
        throw error;
      }
    }
    request.record.replayed = true;
    if (model !== undefined) await showLimitStatus(request, reply, { inference, model });
    reply.status(status).headers(headers).header('idempotent-replayed', 'true');
    reply.send(body instanceof Readable ? body : Buffer.from(body));
    return true;
  };
  server.decorate('replayed', replayed);

  // With callbacks: most requests have no key, and a promise at each step would cost them time.
  server.addHook('preHandler', (request, reply, done) => {
    if (
      request.headers['idempotency-key'] === undefined ||
      // Signing in.
      request.record.principal === undefined ||
      request.routeOptions.config.readsBody === true ||
      /^\s*multipart\//i.test(request.headers['content-type'] ?? '')
    ) {
      done();
      return;
    }
    replayed(request, reply, { hash: request.bodyHash ?? hashBody(''), ...modelOf(request) }).then((isAnswered) => {
      if (!isAnswered) done();
    }, done);
  });

  // Usage is committed by now. The answer is stored before it is sent, so that a retry always finds what the client saw.
  server.addHook('onSend', (request, reply, payload, done) => {
    const run = request.idempotentRun === undefined ? undefined : runs.get(request);
    if (run === undefined) {
      done(null, payload);
      return;
    }
    runs.delete(request);
    const body = payload === undefined || payload === null ? Buffer.alloc(0) : payload;
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    const { secretField } = request.routeOptions.config;
    const kept = Buffer.isBuffer(bytes)
      ? run.complete({ status: reply.statusCode, headers: keptHeaders(reply), body: withoutSecret(bytes, secretField) })
      : run.abandon(reply.statusCode);
    kept.then(
      () => done(null, payload),
      (error) => {
        // Fastify calls the error handler once for each request. After an error it would write the body of the next one itself.
        if (reply.statusCode < 400) done(error);
        else done(null, reply.statusCode < 500 ? instead(error, request, reply) : payload);
      },
    );
  });
});
