import { afterEach, describe, expect, it } from 'vitest';
import { createFairQueue, type FairQueue, type QueueContext, sizeOfReading } from './fair-queue.ts';

const queues: FairQueue<string>[] = [];
// Timers of requests that still wait would fire during other tests.
afterEach(() => {
  for (const queue of queues.splice(0)) queue.rejectAll(new Error('the test is over'));
});

const context = (given: Partial<QueueContext> = {}): QueueContext => ({
  signal: new AbortController().signal,
  accountId: 'account',
  keyId: 'key',
  priority: 'interactive',
  ...given,
});

/** A queue in front of slots that `free` opens. */
function queueWithSlots({ timeoutMs = 60_000, length = 8 } = {}) {
  const depths: number[] = [];
  const queue = createFairQueue<string>({
    bound: { length, timeoutMs, retryAfterSeconds: () => 1 },
    onDepth: (waiting) => depths.push(waiting),
  });
  queues.push(queue);
  const served: string[] = [];
  let open = 0;
  let asked = 0;
  const enter = (name: string, given: Partial<QueueContext> = {}) =>
    queue
      .wait(context(given), () => {
        asked += 1;
        if (open === 0) return undefined;
        open -= 1;
        served.push(name);
        return name;
      })
      .catch((error: unknown) => error);
  const free = (count = 1): void => {
    open += count;
    queue.wake();
  };
  return { queue, served, depths, enter, free, asked: () => asked };
}

describe('the length of a queue of requests that only read', () => {
  const reading = (tokens: number) => context({ work: { tokens } });

  it('is 2048 short requests where 256 long ones may wait', async () => {
    const queue = createFairQueue<string>({
      bound: { length: 256, sizeOf: sizeOfReading, timeoutMs: 60_000, retryAfterSeconds: () => 1 },
    });
    queues.push(queue);
    const outcomes: unknown[] = [];
    const enter = (tokens: number) =>
      void queue.wait(reading(tokens), () => undefined).catch((error: unknown) => outcomes.push(error));
    for (let count = 0; count < 2048; count += 1) enter(500);
    await Promise.resolve();
    expect([queue.waiting(), outcomes]).toEqual([2048, []]);
    await expect(queue.wait(reading(3), () => undefined)).rejects.toMatchObject(full);
    expect(queue.waiting()).toBe(2048);
    queue.rejectAll(new Error('the next part'));
    for (let count = 0; count < 256; count += 1) enter(1_000_000);
    await expect(queue.wait(reading(500), () => undefined)).rejects.toMatchObject(full);
  });
});

const full = { code: 'capacity_exceeded', retryAfterSeconds: 1 };

describe('the order of a fair queue', () => {
  it('is fewest first where it matters what each has', () => {
    const queue = createFairQueue<string>({ counting: 'slots' });
    const ends = [1, 2].map(() => queue.begin(context({ accountId: 'a', keyId: 'key of a' })));
    const served: string[] = [];
    let open = 0;
    for (const name of ['a1', 'b1', 'b2', 'b3', 'c1']) {
      const accountId = name.slice(0, 1);
      const own = context({ accountId, keyId: `key of ${accountId}` });
      void queue.wait(own, () => {
        if (open === 0) return undefined;
        open -= 1;
        queue.begin(own);
        served.push(name);
        return name;
      });
    }
    for (let n = 0; n < 5; n += 1) {
      open += 1;
      queue.wake();
    }
    expect(served).toEqual(['b1', 'c1', 'b2', 'a1', 'b3']);

    for (const name of ['b4', 'a2']) {
      void queue.wait(context({ accountId: name.slice(0, 1) }), () => {
        if (open === 0) return undefined;
        open -= 1;
        served.push(name);
        return name;
      });
    }
    for (const end of ends) end();
    open = 1;
    queue.wake();
    expect(served.at(-1)).toBe('a2');
  });

  it('is interactive before batch, and keys in turn', () => {
    const { served, enter, free } = queueWithSlots();
    for (const name of ['a1', 'a2', 'a3']) void enter(name, { keyId: 'a' });
    void enter('batch', { keyId: 'b', priority: 'batch' });
    void enter('c1', { keyId: 'c' });
    void enter('c2', { keyId: 'c' });
    for (let n = 0; n < 6; n += 1) free();
    expect(served).toEqual(['a1', 'c1', 'a2', 'c2', 'a3', 'batch']);
  });

  it('is accounts in turn, however many keys an account has', () => {
    const { served, enter, free } = queueWithSlots();
    for (const keyId of ['1', '2', '3', '4']) void enter(`a${keyId}`, { accountId: 'a', keyId });
    for (const name of ['b1', 'b2']) void enter(name, { accountId: 'b' });
    free(6);
    expect(served).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'a4']);
  });

  it('lets a request proceed that asks for something else than those before it', () => {
    const { queue } = queueWithSlots();
    const served: string[] = [];
    const ask = (name: string, possible: boolean) =>
      void queue
        .wait(
          context({ keyId: name[0] ?? '' }),
          () => {
            if (possible) served.push(name);
            return possible ? name : undefined;
          },
          possible ? 'here' : 'elsewhere',
        )
        .catch(() => undefined);
    ask('a1', false);
    ask('a2', true);
    ask('b1', true);
    queue.wake();
    expect(served).toEqual(['a2', 'b1']);
    expect(queue.waiting()).toBe(1);
  });

  it('passes by an account that may not proceed, and asks it once', () => {
    const asked: string[] = [];
    const queue = createFairQueue<string>({ obstacle: ({ accountId }) => (accountId === 'a' ? 'account' : 'all') });
    for (const name of ['a1', 'a2', 'b1', 'b2', 'c1']) {
      const accountId = name.slice(0, 1);
      void queue.wait(context({ accountId, keyId: name }), () => {
        asked.push(name);
        return name === 'b1' ? name : undefined;
      });
    }
    queue.wake();
    expect(asked).toEqual(['a1', 'b1', 'c1']);
    expect(queue.waiting()).toBe(4);
  });

  it('stops at the first request that cannot proceed where all need the same', () => {
    const { enter, free, asked } = queueWithSlots();
    for (let n = 0; n < 8; n += 1) void enter(`${n}`, { accountId: `${n}` });
    free(2);
    expect(asked()).toBe(3);
  });
});

describe('a full queue', () => {
  it('refuses the next request of the account that filled it', async () => {
    const { enter, queue } = queueWithSlots({ length: 2 });
    void enter('a');
    void enter('b');
    expect(await enter('c')).toMatchObject(full);
    expect(queue.waiting()).toBe(2);
  });

  it('refuses the newest request of the account with the most waiting, not the newcomer', async () => {
    const { enter, free, served } = queueWithSlots({ length: 4 });
    const greedy = ['1', '2', '3'].map((keyId) => enter(`a${keyId}`, { accountId: 'a', keyId }));
    void enter('b1', { accountId: 'b' });
    void enter('c1', { accountId: 'c' });
    const refused = await Promise.race(greedy);
    expect(refused).toMatchObject(full);
    free(4);
    expect(served).toHaveLength(4);
    expect(served).toEqual(expect.arrayContaining(['b1', 'c1']));
  });

  it('shares what one account has among its keys in the same way', async () => {
    const { enter, free, served } = queueWithSlots({ length: 3 });
    const greedy = ['a1', 'a2', 'a3'].map((name) => enter(name, { keyId: 'a' }));
    void enter('b1', { keyId: 'b' });
    expect(await greedy[2]).toMatchObject(full);
    free(3);
    expect(served).toEqual(['a1', 'b1', 'a2']);
  });

  it('refuses a newcomer when no account has more waiting than it would have', async () => {
    const { enter } = queueWithSlots({ length: 2 });
    void enter('a', { accountId: 'a' });
    void enter('b', { accountId: 'b' });
    expect(await enter('c', { accountId: 'c' })).toMatchObject(full);
  });

  it('makes a batch give way to an interactive request, and never the other way round', async () => {
    const { enter, free, served } = queueWithSlots({ length: 2 });
    const batch = enter('batch', { accountId: 'a', priority: 'batch' });
    void enter('person 1', { accountId: 'b' });
    void enter('person 2', { accountId: 'b' });
    expect(await batch).toMatchObject(full);
    expect(await enter('late batch', { accountId: 'a', priority: 'batch' })).toMatchObject(full);
    free(2);
    expect(served).toEqual(['person 1', 'person 2']);
  });
});

describe('a waiting request', () => {
  it('leaves when it is cancelled and when it has waited too long', async () => {
    const { enter, queue, free, served, depths } = queueWithSlots({ timeoutMs: 20 });
    const client = new AbortController();
    const cancelled = enter('a', { signal: client.signal });
    const late = enter('b');
    client.abort();
    expect(await cancelled).toMatchObject({ code: 'client_cancelled' });
    expect(await late).toMatchObject({ code: 'upstream_timeout' });
    expect(queue.waiting()).toBe(0);
    expect(depths).toEqual([1, 2, 1, 0]);
    free();
    expect(served).toEqual([]);
  });

  it('does not enter when it is cancelled already', async () => {
    const { enter, depths } = queueWithSlots();
    expect(await enter('a', { signal: AbortSignal.abort() })).toMatchObject({ code: 'client_cancelled' });
    expect(depths).toEqual([]);
  });

  it('fails with what its attempt throws', async () => {
    const { queue } = queueWithSlots();
    let broken = false;
    const waiting = queue.wait(context(), () => {
      if (broken) throw new Error('all gone');
      return undefined;
    });
    broken = true;
    queue.wake();
    await expect(waiting).rejects.toThrow('all gone');
  });

  it('fails when everyone is rejected', async () => {
    const { enter, queue } = queueWithSlots();
    const all = [enter('a'), enter('b', { priority: 'batch' })];
    queue.rejectAll(new Error('closing'));
    expect(await Promise.all(all)).toEqual([new Error('closing'), new Error('closing')]);
    expect(queue.waiting()).toBe(0);
  });
});
