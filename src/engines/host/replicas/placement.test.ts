import { describe, expect, it } from 'vitest';
import type { CallContext, Priority } from '../../engine.ts';
import { createPlacement, type Placement } from './placement.ts';

function request(priority: Priority = 'interactive', signal = new AbortController().signal): CallContext {
  return { requestId: '', accountId: '', keyId: '', priority, signal };
}

describe('placement', () => {
  it('chooses the least loaded process', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const first = await placement.place(request(), 1);
    const second = await placement.place(request(), 0.1);
    const third = await placement.place(request(), 0.1);
    expect([first.process, second.process, third.process]).toEqual(['one', 'two', 'two']);
  });

  it('brings calls of one size together on processes of about equal load', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const sizes = [0.02, 0.01, 0.01, 0.02, 0.01, 0.01, 0.02];
    const seats: string[] = [];
    for (const size of sizes) seats.push((await placement.place(request(), size)).process);
    expect(seats).toEqual(['one', 'two', 'two', 'one', 'two', 'two', 'one']);
  });

  it('spreads calls of one size evenly, and none behind others while a process is idle', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const seats: Placement<string>[] = [];
    for (let n = 0; n < 20; n += 1) seats.push(await placement.place(request(), 1 / 256));
    expect(seats.filter(({ process }) => process === 'one')).toHaveLength(10);
    for (const { process, release } of seats) if (process === 'two') release();
    expect((await placement.place(request(), 0.05)).process).toBe('two');
  });

  it('gives a process about two chunks at a time, but never refuses an idle one', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const huge = await placement.place(request(), 5);
    let placed = false;
    const next = Promise.resolve(placement.place(request(), 1)).then((seat) => {
      placed = true;
      return seat;
    });
    await Promise.resolve();
    expect(placed).toBe(false);
    huge.release();
    expect((await next).process).toBe('one');
  });

  it('lets a small request between the chunks of a large one, and both before a batch', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const order: string[] = [];
    const seats: Placement<string>[] = [];
    const ask = (label: string, context: CallContext) =>
      Promise.resolve(placement.place(context, 2)).then((seat) => {
        order.push(label);
        seats.push(seat);
      });
    const large = request();
    const all = [
      ask('batch', request('batch')),
      ...['large 1', 'large 2', 'large 3'].map((label) => ask(label, large)),
      ask('small', request()),
    ];
    for (const _ of all) {
      await new Promise(setImmediate);
      seats.shift()?.release();
    }
    await Promise.all(all);
    expect(order).toEqual(['batch', 'large 1', 'small', 'large 2', 'large 3']);
  });

  it('does not let a small call wait for a full chunk to end', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    await placement.place(request(), 1);
    await placement.place(request(), 1);
    expect((await placement.place(request(), 1 / 64)).process).toBe('one');
  });

  it('spreads small calls by the small ones, which run before large ones', async () => {
    const placement = createPlacement<string>();
    placement.add('busy');
    placement.add('less busy');
    for (const weight of [1, 0.5]) await placement.place(request(), weight);
    const seats: string[] = [];
    for (let n = 0; n < 20; n += 1) seats.push((await placement.place(request(), 1 / 256)).process);
    expect(seats.filter((process) => process === 'busy').length).toBeGreaterThanOrEqual(8);
  });

  it('waits for a process to come, and forgets a request that left', async () => {
    const placement = createPlacement<string>();
    const client = new AbortController();
    const gone = expect(placement.place(request('interactive', client.signal), 1)).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    const waiting = placement.place(request(), 1);
    client.abort();
    await gone;
    placement.add('late');
    expect((await waiting).process).toBe('late');
  });
});
