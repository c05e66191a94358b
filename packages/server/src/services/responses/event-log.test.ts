import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createResponseEventLog } from './event-log.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Responses that other processes work on. */
function setUp(...ids: string[]) {
  const active = new Set(ids);
  const last = new Map<string, number>();
  const lastEvents = vi.fn(async (_ids: readonly string[]) => last);
  const log = createResponseEventLog({
    responses: { active: async () => active, lastEvents, events: async () => [], record: async () => true },
  });
  const woken: string[] = [];
  const follow = (id: string, after = -1, signal = new AbortController().signal) =>
    log.news(id, after, signal).then(() => {
      woken.push(id);
    });
  return { active, last, lastEvents, log, woken, follow };
}

const looks = (count: number) => vi.advanceTimersByTimeAsync(250 * count);

describe('news of responses', () => {
  it('are looked for once for all followers', async () => {
    const { active, last, lastEvents, woken, follow } = setUp('a', 'b', 'c');
    for (const id of ['a', 'b', 'b', 'c']) void follow(id);
    await looks(4);
    expect(lastEvents.mock.calls).toEqual(Array(4).fill([['a', 'b', 'c']]));
    expect(woken).toEqual([]);
    last.set('b', 0);
    active.delete('c');
    await looks(1);
    expect(woken).toEqual(['b', 'b', 'c']);
    await looks(1);
    expect(lastEvents).toHaveBeenLastCalledWith(['a']);
  });

  it('wake a follower that is behind another', async () => {
    const { last, woken, follow } = setUp('a');
    last.set('a', 7);
    void follow('a', 7);
    await looks(2);
    expect(woken).toEqual([]);
    void follow('a', 5);
    await looks(1);
    expect(woken).toEqual(['a', 'a']);
  });

  it('come at once from this process', async () => {
    const { log, lastEvents, woken, follow } = setUp('a');
    void follow('a');
    await log.record({ id: 'a', ownerId: 'here' }, { first: 0, last: 0, content: '[]' });
    await vi.advanceTimersByTimeAsync(0);
    expect(woken).toEqual(['a']);
    expect(lastEvents).not.toHaveBeenCalled();
  });

  it('are left to the followers when the store cannot be read', async () => {
    const { lastEvents, woken, follow } = setUp('a', 'b');
    lastEvents.mockRejectedValueOnce(new Error('the store is away'));
    void follow('a');
    void follow('b');
    await looks(1);
    expect(woken).toEqual(['a', 'b']);
  });

  it('are no longer looked for when all followers have left', async () => {
    const { lastEvents, follow } = setUp('a');
    const client = new AbortController();
    const left = follow('a', -1, client.signal);
    client.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    await looks(3);
    expect(vi.getTimerCount()).toBe(0);
    expect(lastEvents.mock.calls.flat(2)).toEqual([]);
  });
});
