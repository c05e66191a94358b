import { describe, expect, it } from 'vitest';
import { createWriteThreadChoice, type WriteThread } from './write-thread.ts';

/** Chooses that many times, with writes that take as long as given. */
function writeOften(choice = createWriteThreadChoice(), times = 1_000) {
  return {
    choice,
    write(ms: Record<WriteThread, number>): Record<WriteThread, number> {
      const count = { this: 0, pool: 0 };
      for (let time = 0; time < times; time += 1) {
        const thread = choice.next();
        count[thread] += 1;
        choice.note(thread, ms[thread]);
      }
      return count;
    },
  };
}

describe('the thread that writes', () => {
  it('is the pool until it was fast for a while', () => {
    const choice = createWriteThreadChoice();
    expect(choice.next()).toBe('pool');
    choice.note('pool', 0.1);
    expect(choice.next()).toBe('pool');
  });

  it('is the faster one, and the other is tried now and then', () => {
    const writes = writeOften();
    const quiet = writes.write({ this: 0.1, pool: 0.2 });
    expect(quiet.this).toBeGreaterThan(900);
    expect(quiet.pool).toBeGreaterThan(10);
    const busy = writes.write({ this: 4, pool: 0.2 });
    expect(busy.this).toBeGreaterThan(1);
    expect(busy.this).toBeLessThan(100);
    expect(writes.write({ this: 0.1, pool: 0.2 }).this).toBeGreaterThan(100);
  });

  it('changes after a few slow writes, not after one', () => {
    const writes = writeOften();
    writes.write({ this: 0.1, pool: 0.2 });
    writes.choice.note('this', 60_000);
    expect(writes.choice.next()).toBe('this');
    writes.choice.note('this', 60_000);
    writes.choice.note('this', 60_000);
    expect(writes.choice.next()).toBe('pool');
  });

  it('is always the pool with a slow disk', () => {
    expect(writeOften().write({ this: 0.6, pool: 0.7 })).toEqual({ this: 0, pool: 1_000 });
  });
});
