import { afterEach, expect, it, vi } from 'vitest';
import { createWakeablePoll } from './wakeable-poll.ts';

const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const clock = { now: () => Date.now() };

afterEach(() => vi.clearAllMocks());

/** A poll that ends when the test says so. */
function heldPoll() {
  const ends: (() => void)[] = [];
  const poll = vi.fn(() => new Promise<void>((resolve) => ends.push(resolve)));
  return { poll, endNext: () => ends.shift()?.() };
}

it('polls when it starts, and once more after calls during a poll', async () => {
  const { poll, endNext } = heldPoll();
  const polling = createWakeablePoll({ poll, everyMs: 60_000, failure: 'failed', clock, logger });
  polling.wake();
  expect(poll).not.toHaveBeenCalled();
  polling.start();
  polling.wake();
  polling.wake();
  expect(poll).toHaveBeenCalledTimes(1);
  endNext();
  await expect.poll(() => poll.mock.calls.length).toBe(2);
  const stopped = polling.stop();
  polling.wake();
  endNext();
  await stopped;
  expect(poll).toHaveBeenCalledTimes(2);
});

it('logs a failure and goes on', async () => {
  const poll = vi.fn(async () => {}).mockRejectedValueOnce(new Error('away'));
  const polling = createWakeablePoll({ poll, everyMs: 1, failure: 'failed to look', clock, logger });
  polling.start();
  await expect.poll(() => poll.mock.calls.length).toBeGreaterThan(1);
  await polling.stop();
  expect(logger.error).toHaveBeenCalledTimes(1);
  expect(logger.error.mock.calls[0]?.[1]).toContain('failed to look');
});
