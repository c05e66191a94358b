import { errors } from '@baobab/core/errors/errors.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { expect, it } from 'vitest';
import { createRecord } from '../request/request-record.ts';
import { sendError } from './error-answer.ts';

it('logs a failed fetch on one line with every cause, and its stack only for debugging', () => {
  const lines: [string, Record<string, unknown>][] = [];
  const log = {
    warn: (facts: Record<string, unknown>) => lines.push(['warn', facts]),
    debug: (facts: Record<string, unknown>) => lines.push(['debug', facts]),
  };
  const request = { record: createRecord(0), log, body: undefined } as unknown as FastifyRequest;
  const chain = () => reply;
  const reply = { header: chain, status: chain, type: chain, send: chain } as unknown as FastifyReply;
  const cause = new Error('https://hub.example: fetch failed', { cause: new Error('connect ECONNREFUSED') });
  sendError(errors.modelUnavailable('acme/one', 'its weights cannot be fetched', cause), request, reply);
  expect(lines).toEqual([
    ['warn', { code: 'model_unavailable', reason: 'https://hub.example: fetch failed: connect ECONNREFUSED' }],
    ['debug', { err: cause }],
  ]);
});
