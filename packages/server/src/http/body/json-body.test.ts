import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import { expect, it } from 'vitest';
import { createRecord } from '../request/request-record.ts';
import { jsonBodyReader } from './json-body.ts';

it.each([{ is404: false }, { is404: true }])(
  'takes a lost connection for a client that has left, with no such endpoint: $is404',
  async ({ is404 }) => {
    const payload = new PassThrough();
    const request = { is404, headers: {}, record: createRecord(0) } as unknown as FastifyRequest;
    const failure = new Promise((resolve) =>
      jsonBodyReader(1_000)(request, payload as unknown as IncomingMessage, resolve),
    );
    payload.write('{"half":');
    payload.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
    // A 400 would be logged as an unexpected error, with a stack.
    expect(await failure).toMatchObject({ code: 'client_cancelled', status: 499 });
  },
);
