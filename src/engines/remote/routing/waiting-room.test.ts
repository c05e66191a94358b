import { describe, expect, it } from 'vitest';
import type { CallContext } from '../../engine.ts';
import { createWaitingRoom } from './waiting-room.ts';

const context = (changes: Partial<CallContext> = {}): CallContext => ({
  requestId: 'r',
  signal: new AbortController().signal,
  accountId: 'a',
  keyId: 'k',
  priority: 'interactive',
  ...changes,
});

/** A room in front of places that are given out by `free`. */
function roomWithPlaces(timeoutMs = 60_000, places = 8) {
  const room = createWaitingRoom<string>({ places, timeoutMs });
  const served: string[] = [];
  let open = 0;
  const enter = (name: string, changes: Partial<CallContext> = {}) =>
    room
      .wait(context(changes), () => {
        if (open === 0) return undefined;
        open -= 1;
        served.push(name);
        return name;
      })
      .catch((error: unknown) => error);
  const free = (count = 1): void => {
    open += count;
    room.wake();
  };
  return { room, served, enter, free };
}

describe('the waiting room', () => {
  it('serves interactive before batch, and keys in turn', () => {
    const { served, enter, free } = roomWithPlaces();
    for (const name of ['a1', 'a2', 'a3']) void enter(name, { keyId: 'a' });
    void enter('batch', { keyId: 'b', priority: 'batch' });
    void enter('c1', { keyId: 'c' });
    void enter('c2', { keyId: 'c' });
    for (let i = 0; i < 6; i++) free();
    expect(served).toEqual(['a1', 'c1', 'a2', 'c2', 'a3', 'batch']);
  });

  it('refuses the one too many with 429', async () => {
    const { enter, room } = roomWithPlaces(60_000, 2);
    void enter('a');
    void enter('b');
    expect(await enter('c')).toMatchObject({ code: 'capacity_exceeded', retryAfterSeconds: 1 });
    expect(room.size).toBe(2);
  });

  it('lets go of who cancels, and of who waited too long', async () => {
    const { enter, room, free, served } = roomWithPlaces(20);
    const controller = new AbortController();
    const cancelled = enter('a', { signal: controller.signal });
    const late = enter('b');
    controller.abort();
    expect(await cancelled).toMatchObject({ code: 'client_cancelled' });
    expect(await late).toMatchObject({ code: 'upstream_timeout' });
    expect(room.size).toBe(0);
    free();
    expect(served).toEqual([]);
  });

  it('passes on why nobody can be served any more', async () => {
    const room = createWaitingRoom<string>({ places: 2, timeoutMs: 60_000 });
    let broken = false;
    const waiting = room.wait(context(), () => {
      if (broken) throw new Error('all gone');
      return undefined;
    });
    broken = true;
    room.wake();
    await expect(waiting).rejects.toThrow('all gone');
  });
});
