import { describe, expect, it } from 'vitest';
import { createMemoryBudget, type MemoryHolder } from './memory-budget.ts';

const MB = 1024 * 1024;

function build(limitMb: number) {
  const holders: (MemoryHolder & { busy: boolean; mb: number })[] = [];
  const evicted: string[] = [];
  const memory = createMemoryBudget(limitMb * MB, () => holders);
  function add(slug: string, mb: number, lastUsedAt = 0) {
    const holder = {
      slug,
      lastUsedAt,
      busy: false,
      mb,
      usedBytes: async () => holder.mb * MB,
      setAside(bytes: number) {
        holder.mb = bytes / MB;
      },
      idle: () => holder.mb > 0 && !holder.busy,
      async evict() {
        evicted.push(slug);
        holder.mb = 0;
      },
    };
    holders.push(holder);
    return holder;
  }
  return { memory, add, evicted };
}

const never = new AbortController().signal;

describe('memory budget', () => {
  it('unloads the least recently used idle models until the new one fits', async () => {
    const { memory, add, evicted } = build(100);
    add('new', 40, 30);
    add('old', 30, 10);
    add('middle', 30, 20);
    await memory.reserve(add('next', 0), 50 * MB, never);
    expect(evicted).toEqual(['old', 'middle']);
  });

  it('refuses what can never fit, with the numbers', async () => {
    const { memory, add } = build(100);
    await expect(memory.reserve(add('huge', 0), 101 * MB, never)).rejects.toMatchObject({
      code: 'model_unavailable',
      message: expect.stringContaining('about 101 MB of memory, and models may use 100 MB'),
    });
  });

  it('waits for a model in use to become idle', async () => {
    const { memory, add, evicted } = build(100);
    const user = add('user', 80);
    user.busy = true;
    const reserved = memory.reserve(add('next', 0), 50 * MB, never);
    await new Promise(setImmediate);
    expect(evicted).toEqual([]);
    user.busy = false;
    memory.changed();
    await reserved;
    expect(evicted).toEqual(['user']);
  });

  it('lets a small model load while a large one waits', async () => {
    const { memory, add } = build(100);
    const user = add('user', 80);
    user.busy = true;
    const patience = new AbortController();
    const large = expect(memory.reserve(add('large', 0), 50 * MB, patience.signal)).rejects.toThrow('50 MB');
    await memory.reserve(add('small', 0), 10 * MB, never);
    patience.abort();
    await large;
  });

  it('gives up waiting in time, with the numbers', async () => {
    const { memory, add } = build(100);
    add('user', 80).busy = true;
    const patience = new AbortController();
    const refused = expect(memory.reserve(add('next', 0), 50 * MB, patience.signal)).rejects.toThrow(
      'needs about 50 MB of memory, models in use have 80 MB of 100 MB',
    );
    patience.abort();
    await refused;
  });

  it('never promises the same memory twice', async () => {
    const { memory, add } = build(100);
    const patience = new AbortController();
    const first = memory.reserve(add('first', 0), 60 * MB, never);
    const second = memory.reserve(add('second', 0), 60 * MB, patience.signal);
    await first;
    await second;
    expect(await memory.trim()).toEqual({ usedBytes: 60 * MB, overBytes: 0 });
  });

  it('gives what is free when a part will do, after it has unloaded idle models', async () => {
    const { memory, add, evicted } = build(100);
    add('idle', 30);
    add('user', 40).busy = true;
    const next = add('next', 0);
    expect(await memory.reserveUpTo(next, 80 * MB)).toBe(60 * MB);
    expect(evicted).toEqual(['idle']);
    expect(next.mb).toBe(60);
  });

  it('gives at most all there is', async () => {
    const { memory, add } = build(100);
    expect(await memory.reserveUpTo(add('huge', 0), 300 * MB)).toBe(100 * MB);
  });

  it('trims models that have grown', async () => {
    const { memory, add, evicted } = build(100);
    const grown = add('grown', 60, 20);
    add('old', 40, 10);
    grown.mb = 90;
    expect(await memory.trim()).toEqual({ usedBytes: 90 * MB, overBytes: 0 });
    expect(evicted).toEqual(['old']);
  });
});
