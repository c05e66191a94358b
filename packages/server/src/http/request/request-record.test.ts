import type { FastifyReply } from 'fastify';
import { describe, expect, it } from 'vitest';
import { createRecord, disconnectSignal } from './request-record.ts';
import { createRunningRequests } from './running-requests.ts';

function replyTo(raw: { destroyed: boolean; writableFinished: boolean }) {
  const running = createRunningRequests();
  const reply = { request: { record: createRecord(0), server: { running } }, raw } as unknown as FastifyReply;
  return { running, reply };
}

describe('the disconnect signal of a request', () => {
  it('is created once, and the request is listed once', () => {
    const { running, reply } = replyTo({ destroyed: false, writableFinished: false });
    expect(disconnectSignal(reply)).toBe(disconnectSignal(reply));
    expect(disconnectSignal(reply).aborted).toBe(false);
    expect(running.size).toBe(1);
  });

  it('is aborted if the client left before, and the request is not listed', () => {
    const { running, reply } = replyTo({ destroyed: true, writableFinished: false });
    expect(disconnectSignal(reply).aborted).toBe(true);
    expect(running.size).toBe(0);
  });
});
