import type { FastifyReply } from 'fastify';
import { describe, expect, it } from 'vitest';
import { createRecord, disconnectSignal } from './request-record.ts';
import { createRunningRequests } from './running-requests.ts';

function replyTo(raw: { destroyed: boolean; writableFinished: boolean }) {
  const running = createRunningRequests();
  const reply = { request: { record: createRecord(0), server: { running } }, raw } as unknown as FastifyReply;
  return { running, reply };
}

describe('the signal of a request whose client may go away', () => {
  it('is one for all who ask, and the request runs once', () => {
    const { running, reply } = replyTo({ destroyed: false, writableFinished: false });
    expect(disconnectSignal(reply)).toBe(disconnectSignal(reply));
    expect(disconnectSignal(reply).aborted).toBe(false);
    expect(running.size).toBe(1);
  });

  it('has fired when the client went before anybody asked, and the request is not kept', () => {
    const { running, reply } = replyTo({ destroyed: true, writableFinished: false });
    expect(disconnectSignal(reply).aborted).toBe(true);
    expect(running.size).toBe(0);
  });
});
