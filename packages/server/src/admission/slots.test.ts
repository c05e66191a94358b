import type { CallContext, Priority } from '@baobab/core/engine/engine.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createSlots, type Permit } from './slots.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function context(
  keyId: string,
  priority: Priority = 'interactive',
  signal = new AbortController().signal,
): CallContext {
  return { requestId: keyId, accountId: 'account', keyId, priority, signal };
}

function build({ capacity = 1, queueLength = 8, queueTimeoutMs = 1_000 } = {}) {
  const slots = createSlots({ queueLength, queueTimeoutMs, clock: systemClock });
  slots.setCapacity(capacity);
  const order: string[] = [];
  const permits: Permit[] = [];
  async function enter(label: string, keyId: string, priority?: Priority) {
    permits.push(await slots.enter(context(keyId, priority)));
    order.push(label);
  }
  /** Each holder gives its slot to the next one in line. */
  async function drain() {
    for (let permit = permits.shift(); permit !== undefined; permit = permits.shift()) {
      permit.release();
      await vi.advanceTimersByTimeAsync(0);
    }
  }
  return { slots, order, enter, drain };
}

describe('slots', () => {
  it('lets as many in as there are slots, and the next one when a slot is free', async () => {
    const { slots } = build({ capacity: 2 });
    const first = await slots.enter(context('a'));
    await slots.enter(context('a'));
    const third = slots.enter(context('a'));
    expect([slots.inUse(), slots.waiting()]).toEqual([2, 1]);
    vi.advanceTimersByTime(250);
    first.release();
    first.release();
    expect((await third).waitedMs).toBe(250);
    expect([slots.inUse(), slots.waiting()]).toEqual([2, 0]);
  });

  it('lets all requests wait while there is no slot', async () => {
    const { slots } = build({ capacity: 0 });
    const waiting = slots.enter(context('a'));
    expect(slots.waiting()).toBe(1);
    slots.setCapacity(1);
    await waiting;
  });

  it('gives keys their turns', async () => {
    const { enter, order, drain } = build();
    void enter('a1', 'a');
    for (const label of ['a2', 'a3', 'a4']) void enter(label, 'a');
    for (const label of ['b1', 'b2']) void enter(label, 'b');
    void enter('c1', 'c');
    await vi.advanceTimersByTimeAsync(0);
    await drain();
    // The others had nothing yet.
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('lets interactive requests go before batches, and batches when no other request waits', async () => {
    const { enter, order, drain } = build();
    void enter('first', 'a', 'batch');
    void enter('batch 1', 'a', 'batch');
    void enter('batch 2', 'a', 'batch');
    void enter('person 1', 'b');
    void enter('person 2', 'b');
    await vi.advanceTimersByTimeAsync(0);
    await drain();
    expect(order).toEqual(['first', 'person 1', 'person 2', 'batch 1', 'batch 2']);
  });

  it('keeps one of several slots free of batches', async () => {
    const { slots } = build({ capacity: 3 });
    for (let n = 0; n < 3; n += 1) void slots.enter(context('a', 'batch'));
    await vi.advanceTimersByTimeAsync(0);
    expect([slots.inUse(), slots.waiting()]).toEqual([2, 1]);
    const person = await slots.enter(context('b'));
    expect(slots.inUse()).toBe(3);
    person.release();
    expect(slots.waiting()).toBe(1);
  });

  it('lets no account hold more than its part, and others pass by', async () => {
    const slots = createSlots({ queueLength: 8, queueTimeoutMs: 1_000, clock: systemClock });
    slots.setCapacity(2, 1);
    const of = (accountId: string) => ({ ...context(accountId), accountId });
    const first = await slots.enter(of('a'));
    const second = slots.enter(of('a'));
    expect([slots.inUse(), slots.waiting()]).toEqual([1, 1]);
    expect(slots.enterNow(of('b'))).toBeDefined();
    first.release();
    await second;
    expect([slots.inUse(), slots.waiting()]).toEqual([2, 0]);
  });

  it('leaves a slot to an account that comes, whatever the one before has sent, and one to its own requests beside batches', async () => {
    const slots = createSlots({ queueLength: 100, queueTimeoutMs: 1_000, clock: systemClock });
    slots.setCapacity(8, 6);
    const of = (accountId: string, priority?: Priority) => ({ ...context(accountId, priority), accountId });
    const ignored = () => {};
    for (let n = 0; n < 20; n += 1) slots.enter(of('heavy', n < 10 ? 'batch' : 'interactive')).catch(ignored);
    await vi.advanceTimersByTimeAsync(0);
    expect(slots.inUse()).toBe(6);
    expect(slots.enterNow(of('light'))).toBeDefined();
    slots.rejectAll(new Error('the end'));

    const idle = createSlots({ queueLength: 100, queueTimeoutMs: 1_000, clock: systemClock });
    idle.setCapacity(8, 6);
    for (let n = 0; n < 10; n += 1) idle.enter(of('heavy', 'batch')).catch(ignored);
    expect(idle.inUse()).toBe(5);
    expect(idle.enterNow(of('heavy'))).toBeDefined();
    expect(idle.enterNow(of('heavy'))).toBeUndefined();
    idle.rejectAll(new Error('the end'));
  });

  it('answers 429 with the time to wait when the queue is full', async () => {
    const { slots } = build({ queueLength: 2 });
    const first = await slots.enter(context('a'));
    vi.advanceTimersByTime(9_000);
    first.release();
    await slots.enter(context('a'));
    void slots.enter(context('a')).catch(() => {});
    void slots.enter(context('a')).catch(() => {});
    await expect(slots.enter(context('a'))).rejects.toMatchObject({
      code: 'capacity_exceeded',
      // Three before it, and a slot is held for 2 s: the average so far of 1 s moved by one eighth towards 9 s.
      retryAfterSeconds: 6,
    });
  });

  it('makes the greediest key give way at a full queue', async () => {
    const { slots } = build({ queueLength: 3 });
    await slots.enter(context('a'));
    const greedy = [1, 2, 3].map(() => slots.enter(context('a')));
    const last = expect(greedy[2]).rejects.toMatchObject({ code: 'capacity_exceeded' });
    const modest = slots.enter(context('b'));
    await last;
    expect(slots.waiting()).toBe(3);
    for (const waiting of [greedy[0], greedy[1], modest]) waiting?.catch(() => {});
  });

  it('makes a batch give way to a person at a full queue', async () => {
    const { slots } = build({ queueLength: 1 });
    await slots.enter(context('a'));
    const batch = expect(slots.enter(context('a', 'batch'))).rejects.toMatchObject({ code: 'capacity_exceeded' });
    void slots.enter(context('a'));
    await batch;
  });

  it('answers 504 when the wait is too long', async () => {
    const { slots } = build({ queueTimeoutMs: 1_000 });
    await slots.enter(context('a'));
    const late = expect(slots.enter(context('a'))).rejects.toMatchObject({ status: 504, code: 'upstream_timeout' });
    await vi.advanceTimersByTimeAsync(1_000);
    await late;
    expect(slots.waiting()).toBe(0);
  });

  it('forgets a cancelled request at once', async () => {
    const { slots } = build();
    const holder = await slots.enter(context('a'));
    const client = new AbortController();
    const gone = expect(slots.enter(context('a', 'interactive', client.signal))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    const next = slots.enter(context('a'));
    client.abort();
    await gone;
    expect(slots.waiting()).toBe(1);
    holder.release();
    await next;
  });

  it('rejects all waiting requests when the model is broken', async () => {
    const { slots } = build({ capacity: 0 });
    const waiting = [1, 2].map(() => expect(slots.enter(context('a'))).rejects.toThrow('broken'));
    slots.rejectAll(new Error('broken'));
    await Promise.all(waiting);
    expect(slots.waiting()).toBe(0);
  });
});
