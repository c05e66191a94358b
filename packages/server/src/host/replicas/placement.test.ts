import type { CallContext, Priority } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { type CallSize, createPlacement, type Placement } from './placement.ts';

function request(priority: Priority = 'interactive', signal = new AbortController().signal): CallContext {
  return { requestId: '', accountId: '', keyId: '', priority, signal };
}

describe('placement', () => {
  it('chooses the least loaded process', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const first = await placement.place(request(), { weight: 1 });
    const second = await placement.place(request(), { weight: 0.1 });
    const third = await placement.place(request(), { weight: 0.1 });
    expect([first.replica, second.replica, third.replica]).toEqual(['one', 'two', 'two']);
  });

  it('spreads calls of one size evenly, and none behind others while a process is idle', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const seats: Placement<string>[] = [];
    for (let n = 0; n < 20; n += 1) seats.push(await placement.place(request(), { weight: 1 / 256 }));
    expect(seats.filter(({ replica }) => replica === 'one')).toHaveLength(10);
    for (const { replica, release } of seats) if (replica === 'two') release();
    expect((await placement.place(request(), { weight: 0.05 })).replica).toBe('two');
  });

  it('gives a process about two chunks at a time, but never refuses an idle one', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const huge = await placement.place(request(), { weight: 5 });
    let placed = false;
    const next = Promise.resolve(placement.place(request(), { weight: 1 })).then((seat) => {
      placed = true;
      return seat;
    });
    await Promise.resolve();
    expect(placed).toBe(false);
    huge.release();
    expect((await next).replica).toBe('one');
  });

  it('lets a small request before the chunks of a large one, and both before a batch', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const order: string[] = [];
    const seats: Placement<string>[] = [];
    const ask = (label: string, context: CallContext) =>
      Promise.resolve(placement.place(context, { weight: 2 })).then((seat) => {
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
    expect(order).toEqual(['batch', 'small', 'large 1', 'large 2', 'large 3']);
  });

  it('ends requests of one size one after the other, and does not let smaller ones hold up a large one forever', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const order: string[] = [];
    const seats: Placement<string>[] = [];
    const ask = (label: string, parts: number) => {
      const context = request();
      for (let n = 0; n < parts; n += 1) {
        void Promise.resolve(placement.place(context, { weight: 1, isPart: true })).then((seat) => {
          order.push(label);
          seats.push(seat);
        });
      }
    };
    ask('large', 8);
    for (let n = 0; n < 3; n += 1) ask(`small ${n}`, 2);
    for (let n = 0; n < 14; n += 1) {
      await new Promise(setImmediate);
      seats.shift()?.release();
    }
    expect(order.filter((label) => label !== 'large')).toEqual([0, 0, 1, 1, 2, 2].map((n) => `small ${n}`));
    // Two have a place at once, then each fourth turn is theirs.
    expect(order.slice(0, 8).filter((label) => label === 'large').length).toBeGreaterThanOrEqual(3);
    expect(order).toHaveLength(14);
  });

  it('does not let a small call wait for a full chunk to end', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    await placement.place(request(), { weight: 1 });
    await placement.place(request(), { weight: 1 });
    expect((await placement.place(request(), { weight: 1 / 64 })).replica).toBe('one');
  });

  it('spreads small calls by the small ones, which run before large ones', async () => {
    const placement = createPlacement<string>();
    placement.add('busy');
    placement.add('less busy');
    for (const weight of [1, 0.5]) await placement.place(request(), { weight: weight });
    const seats: string[] = [];
    for (let n = 0; n < 20; n += 1) seats.push((await placement.place(request(), { weight: 1 / 256 })).replica);
    expect(seats.filter((replica) => replica === 'busy').length).toBeGreaterThanOrEqual(8);
  });

  it('gives a process two parts of large requests at a time, so that a slow one gets fewer', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    placement.add('two');
    const seats: Placement<string>[] = [];
    const part = () =>
      void Promise.resolve(placement.place(request(), { weight: 0.1, isPart: true })).then((seat) => seats.push(seat));
    for (let n = 0; n < 8; n += 1) part();
    await new Promise(setImmediate);
    expect(seats.map(({ replica }) => replica).sort()).toEqual(['one', 'one', 'two', 'two']);
    // The first process ends one after the other, the second none.
    for (let n = 0; n < 4; n += 1) {
      seats
        .splice(
          seats.findIndex(({ replica }) => replica === 'one'),
          1,
        )[0]
        ?.release();
      await new Promise(setImmediate);
    }
    expect(seats.map(({ replica }) => replica).sort()).toEqual(['one', 'one', 'two', 'two']);
  });

  it('lets a whole call past parts that wait, but no batch', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const parts = request();
    for (let n = 0; n < 3; n += 1) void placement.place(parts, { weight: 1 / 2, isPart: true });
    expect((await placement.place(request(), { weight: 1 / 256 })).replica).toBe('one');
    let placed = false;
    void Promise.resolve(placement.place(request('batch'), { weight: 1 / 256 })).then(() => {
      placed = true;
    });
    await new Promise(setImmediate);
    expect(placed).toBe(false);
  });

  it('waits for a process to come, and forgets a request that left', async () => {
    const placement = createPlacement<string>();
    const client = new AbortController();
    const gone = expect(placement.place(request('interactive', client.signal), { weight: 1 })).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    const waiting = placement.place(request(), { weight: 1 });
    client.abort();
    await gone;
    placement.add('late');
    expect((await waiting).replica).toBe('late');
  });
});

describe('placement among accounts', () => {
  const of = (accountId: string, changes: Partial<CallContext> = {}): CallContext => ({
    ...request(),
    accountId,
    ...changes,
  });

  it('gives accounts work by their weights, and one with low priority a tenth', async () => {
    const placement = createPlacement<string>();
    placement.add('one');
    const served: string[] = [];
    let running = await placement.place(of('first'), { weight: 2 });
    const call = (name: string, context: CallContext, weight: number) =>
      void Promise.resolve(placement.place(context, { weight })).then((seat) => {
        served.push(name);
        running = seat;
      });
    for (let n = 0; n < 40; n += 1) {
      call('heavy', of('heavy', { weight: 3 }), 2);
      call('light', of('light'), 2);
      call('low', of('low', { priority: 'low' }), 2);
    }
    for (let n = 0; n < 30; n += 1) {
      running.release();
      await new Promise(setImmediate);
    }
    const count = (name: string) => served.filter((each) => each === name).length;
    expect(count('heavy') / count('light')).toBeCloseTo(3, 0);
    expect(count('low')).toBeLessThanOrEqual(2);
  });

  it('keeps a process for small calls only while several accounts have work', async () => {
    let time = 0;
    const placement = createPlacement<string>(() => time);
    for (const name of ['one', 'two', 'three', 'four']) placement.add(name);
    const seats: Placement<string>[] = [];
    const fill = (count: number) => {
      for (let n = 0; n < count; n += 1) {
        void Promise.resolve(placement.place(of('heavy'), { weight: 2, isPart: true })).then((seat) =>
          seats.push(seat),
        );
      }
      return new Promise(setImmediate);
    };
    await fill(4);
    expect(new Set(seats.map(({ replica }) => replica)).size).toBe(4);
    for (const seat of seats.splice(0)) seat.release();

    const light = await placement.place(of('light'), { weight: 1 / 256 });
    await fill(6);
    const taken = new Set(seats.map(({ replica }) => replica));
    expect(taken.size).toBe(3);
    light.release();
    const spare = await placement.place(of('light'), { weight: 1 / 256 });
    expect(taken.has(spare.replica)).toBe(false);

    spare.release();
    time = 1_001;
    seats.shift()?.release();
    await new Promise(setImmediate);
    expect(new Set(seats.map(({ replica }) => replica)).size).toBe(4);
  });

  /** Four processes, and calls of `heavy` that take what they can get. */
  function setUpHeavy(now = () => 0) {
    const placement = createPlacement<string>(now);
    for (const name of ['one', 'two', 'three', 'four']) placement.add(name);
    const seats: Placement<string>[] = [];
    const settled = () => new Promise(setImmediate);
    return {
      placement,
      seats,
      settled,
      async send(count: number, size: CallSize) {
        for (let n = 0; n < count; n += 1) {
          void Promise.resolve(placement.place(of('heavy'), size)).then((seat) => seats.push(seat));
        }
        await settled();
      },
      /** Ends the oldest of these calls on a process. */
      async end(replica: string) {
        const index = seats.findIndex((seat) => seat.replica === replica);
        seats.splice(index, index === -1 ? 0 : 1)[0]?.release();
        await settled();
      },
      countOn: (replica: string) => seats.filter((seat) => seat.replica === replica).length,
    };
  }
  const PART: CallSize = { weight: 1, longest: 1 / 32, isPart: true };
  const SHORT: CallSize = { weight: 1 / 256 };

  it('frees a process for an account that comes when all are full, and keeps it free however long the calls take', async () => {
    let time = 0;
    const { placement, settled, send, end, countOn } = setUpHeavy(() => time);
    await send(20, PART);
    for (const replica of ['two', 'four', 'one']) await end(replica);
    time = 5_000;
    const first = await placement.place(of('light'), SHORT);
    time = 10_000;
    // The others have begun their parts later.
    for (const replica of ['one', 'three', 'two', 'four', 'one', 'three']) await end(replica);
    first.release();
    await settled();
    expect(['one', 'two', 'three', 'four'].map(countOn)).toEqual([2, 2, 0, 2]);
    for (let n = 0; n < 4; n += 1) {
      time += 900;
      const seat = await placement.place(of('light'), SHORT);
      expect(seat.replica).toBe('three');
      time += 3_000;
      seat.release();
      await settled();
    }
    expect(countOn('three')).toBe(0);
  });

  it('gives the other processes as much work as before', async () => {
    const { placement, send, countOn } = setUpHeavy();
    await placement.place(of('light'), SHORT);
    await send(20, PART);
    expect(['one', 'two', 'three', 'four'].map(countOn).sort()).toEqual([0, 2, 2, 2]);
  });

  it('leaves that process to short texts, also where those of others come in single calls', async () => {
    const { placement, seats, send, settled } = setUpHeavy();
    const light = await placement.place(of('light'), SHORT);
    await send(400, { weight: 1 / 32 });
    expect(seats.length).toBeLessThan(400);
    expect(seats.every(({ replica }) => replica !== light.replica)).toBe(true);
    const shorts: string[] = [];
    for (let n = 0; n < 8; n += 1) {
      void Promise.resolve(placement.place(of('light'), SHORT)).then(({ replica }) => shorts.push(replica));
    }
    await settled();
    expect(shorts).toEqual(Array(8).fill(light.replica));
  });

  it('lets no short call past a long one, except to that process', async () => {
    const { placement, seats, send, settled } = setUpHeavy();
    const light = await placement.place(of('light'), SHORT);
    await send(4, { weight: 2 });
    const waiting = of('third');
    let placed = 0;
    void Promise.resolve(placement.place(waiting, { weight: 2 })).then(() => {
      placed += 1;
    });
    const shorts: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      void Promise.resolve(placement.place(of('light'), SHORT)).then(({ replica }) => shorts.push(replica));
    }
    await settled();
    expect(shorts).toEqual([light.replica, light.replica, light.replica]);
    for (const seat of seats.splice(0)) seat.release();
    await settled();
    expect(placed).toBe(1);
  });

  it('keeps another process free when that one has crashed', async () => {
    const { placement, send, end, seats } = setUpHeavy();
    const light = await placement.place(of('light'), SHORT);
    placement.add('five');
    placement.remove(light.replica);
    await send(20, PART);
    for (const { replica } of [...seats]) await end(replica);
    expect(new Set(seats.map(({ replica }) => replica)).size).toBe(3);
  });

  it('gives every process to long calls again when a second has passed, or there are only three', async () => {
    let time = 0;
    const { placement, send, end, countOn } = setUpHeavy(() => time);
    const light = await placement.place(of('light'), SHORT);
    await send(20, PART);
    expect(countOn(light.replica)).toBe(0);
    light.release();
    time = 1_001;
    await end('two');
    expect(countOn(light.replica)).toBe(2);

    const small = createPlacement<string>(() => time);
    for (const name of ['one', 'two', 'three']) small.add(name);
    await small.place(of('light'), SHORT);
    const taken = await Promise.all([1, 2, 3].map(() => small.place(of('heavy'), PART)));
    expect(new Set(taken.map(({ replica }) => replica)).size).toBe(3);
  });
});
