import type { Priority } from '@baobab/core/engine/engine.ts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFairQueue, type QueueContext } from './fair-queue.ts';

const LARGEST = 1_000;
/** One each: a signal takes longer to listen to, the more do. */
const aSignal = () => new AbortController().signal;

interface Given {
  accountId: string;
  keyId?: string;
  weight?: number;
  tokens: number;
  priority?: Priority;
}

/** A queue in front of one engine that takes one request after the other. Adds up what each was served. */
function busyEngine() {
  const queue = createFairQueue<string>({});
  const served = new Map<string, number>();
  let open = 0;
  let order = 0;
  const add = (given: Given, onServed = () => {}) => {
    const { accountId, keyId = 'key', weight, tokens, priority = 'interactive' } = given;
    const context: QueueContext = { accountId, keyId, priority, weight, work: { tokens }, signal: aSignal() };
    void queue.wait(context, () => {
      if (open === 0) return undefined;
      open -= 1;
      order += 1;
      queue.begin(context);
      for (const name of [accountId, `${accountId} ${keyId}`, priority]) {
        served.set(name, (served.get(name) ?? 0) + tokens);
      }
      onServed();
      return accountId;
    });
  };
  const step = () => {
    open = 1;
    queue.wake();
    open = 0;
  };
  return { queue, add, step, of: (name: string) => served.get(name) ?? 0, order: () => order };
}

const tokens = fc.integer({ min: 1, max: LARGEST });
const weight = fc.integer({ min: 1, max: 50 });

describe('shares of work', () => {
  it('of accounts that always wait differ by no more than one largest request of each, for their weights', () => {
    const account = fc.record({ weight, sizes: fc.array(tokens, { minLength: 1, maxLength: 8 }) });
    fc.assert(
      fc.property(
        fc.array(account, { minLength: 2, maxLength: 5 }),
        fc.integer({ min: 1, max: 200 }),
        (accounts, steps) => {
          const { add, step, of } = busyEngine();
          accounts.forEach(({ weight, sizes }, index) => {
            let next = 0;
            // A client that sends the next request as soon as one is served, and has two waiting.
            const send = (): void =>
              add({ accountId: `${index}`, weight, tokens: sizes[next++ % sizes.length] ?? 1 }, send);
            send();
            send();
          });
          for (let n = 0; n < steps; n += 1) step();
          for (const [one, { weight, sizes }] of accounts.entries()) {
            for (const [other, { weight: otherWeight, sizes: otherSizes }] of accounts.entries()) {
              const apart = Math.abs(of(`${one}`) / weight - of(`${other}`) / otherWeight);
              expect(apart).toBeLessThanOrEqual(Math.max(...sizes) / weight + Math.max(...otherSizes) / otherWeight);
            }
          }
        },
      ),
      { seed: 20_261_119, numRuns: 300 },
    );
  });

  it('holds over any pattern of arrivals, from the moment on from which two accounts wait', () => {
    const event = fc.oneof(
      fc.record({ account: fc.integer({ min: 2, max: 5 }), tokens }),
      fc.constant('step' as const),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 120 }), fc.array(event, { maxLength: 120 }), (before, during) => {
        const { add, step, of } = busyEngine();
        const play = (events: typeof before) => {
          for (const each of events) {
            if (each === 'step') step();
            else add({ accountId: `${each.account}`, tokens: each.tokens });
          }
        };
        play(before);
        for (const accountId of ['0', '1']) {
          const send = (): void => add({ accountId, tokens: accountId === '0' ? LARGEST : 10 }, send);
          send();
          send();
        }
        play(during);
        expect(Math.abs(of('0') - of('1'))).toBeLessThanOrEqual(LARGEST + 10);
      }),
      { seed: 20_261_119, numRuns: 300 },
    );
  });

  it('of the keys of one account are equal, however many the other account has', () => {
    const { add, step, of } = busyEngine();
    for (const [accountId, keyId] of [
      ['a', '1'],
      ['a', '2'],
      ['a', '3'],
      ['b', '1'],
    ] as const) {
      const size = keyId === '2' ? 100 : 10;
      const send = (): void => add({ accountId, keyId, tokens: size }, send);
      send();
      send();
    }
    for (let n = 0; n < 2_000; n += 1) step();
    expect(Math.abs(of('a') - of('b'))).toBeLessThanOrEqual(110);
    expect(Math.abs(of('a 1') - of('a 2'))).toBeLessThanOrEqual(110);
    expect(Math.abs(of('a 2') - of('a 3'))).toBeLessThanOrEqual(110);
  });

  it('give low priority a tenth of what is interactive, and batches nothing', () => {
    const { add, step, of } = busyEngine();
    for (const priority of ['interactive', 'low', 'batch'] as const) {
      const send = (): void => add({ accountId: priority, tokens: 10, priority }, send);
      send();
      send();
    }
    for (let n = 0; n < 1_100; n += 1) step();
    expect(of('batch')).toBe(0);
    expect(of('interactive') / of('low')).toBeCloseTo(10, 0);
  });

  it('starve none: a new account waits for one request of each other at most', () => {
    const { add, step, order } = busyEngine();
    for (let other = 0; other < 9; other += 1) {
      const send = (): void => add({ accountId: `${other}`, weight: 1 + other, tokens: 1 + 111 * other }, send);
      send();
      send();
    }
    for (let n = 0; n < 500; n += 1) step();
    const arrivedAt = order();
    let servedAt = 0;
    add({ accountId: 'new', tokens: LARGEST }, () => {
      servedAt = order();
    });
    for (let n = 0; n < 20; n += 1) step();
    expect(servedAt - arrivedAt).toBeGreaterThan(0);
    expect(servedAt - arrivedAt).toBeLessThanOrEqual(10);
  });

  it('cost nothing while no other account waits, and earn no credit', () => {
    const { queue, add, step, of } = busyEngine();
    const alone: QueueContext = {
      accountId: 'a',
      keyId: 'key',
      priority: 'interactive',
      work: { tokens: LARGEST },
      signal: aSignal(),
    };
    for (let n = 0; n < 1_000; n += 1) queue.begin(alone)();
    for (const accountId of ['a', 'b']) {
      const send = (): void => add({ accountId, tokens: 100 }, send);
      send();
      send();
    }
    for (let n = 0; n < 100; n += 1) step();
    expect(Math.abs(of('a') - of('b'))).toBeLessThanOrEqual(LARGEST + 100);
  });

  it('count what was really used when a request has ended', () => {
    const queue = createFairQueue<string>({});
    const served: string[] = [];
    let open = 0;
    const add = (accountId: string, estimate: number, used: number) => {
      const work = { tokens: estimate };
      const context: QueueContext = { accountId, keyId: 'key', priority: 'interactive', work, signal: aSignal() };
      const send = (): void =>
        void queue.wait(context, () => {
          if (open === 0) return undefined;
          open -= 1;
          work.tokens = estimate;
          const end = queue.begin(context);
          work.tokens = used;
          end();
          served.push(accountId);
          send();
          return accountId;
        });
      send();
    };
    add('cautious', 1_000, 10);
    add('exact', 10, 10);
    for (let n = 0; n < 100; n += 1) {
      open = 1;
      queue.wake();
    }
    expect(served.filter((each) => each === 'cautious').length).toBeGreaterThanOrEqual(49);
  });
});

describe('a full queue of accounts with weights', () => {
  it('refuses the newest request of the account with the longest line for its weight', async () => {
    const queue = createFairQueue<string>({ bound: { length: 5, retryAfterSeconds: () => 1 } });
    const refused: string[] = [];
    const add = (name: string, weight: number) =>
      queue
        .wait(
          { accountId: name.slice(0, 1), keyId: 'key', priority: 'interactive', weight, signal: aSignal() },
          () => undefined,
        )
        .catch(() => refused.push(name));
    void add('a1', 1);
    void add('a2', 1);
    for (const name of ['b1', 'b2', 'b3']) void add(name, 3);
    void add('c1', 1);
    await expect.poll(() => refused).toEqual(['a2']);
    queue.rejectAll(new Error('the test is over'));
  });
});

it('takes about as long for one of 8 000 waiting requests as for one of 800', () => {
  const cpuOf = (accounts: number): number => {
    const { add, step } = busyEngine();
    for (let n = 0; n < accounts * 2; n += 1) add({ accountId: `${n % accounts}`, keyId: `${n}`, tokens: 1 + (n % 7) });
    const before = process.cpuUsage();
    for (let n = 0; n < 400; n += 1) step();
    return process.cpuUsage(before).user;
  };
  cpuOf(400);
  const least = (accounts: number) => Math.min(...[1, 2, 3].map(() => cpuOf(accounts)));
  // A step that looked at all of them would take ten times as long.
  expect(least(4_000)).toBeLessThan(5 * least(400));
});
