import { describe, expect, it } from 'vitest';
import { createChannel } from './channel.ts';

describe('createChannel', () => {
  it('makes the producer wait while the buffer is full', async () => {
    const channel = createChannel<number>(2);
    await channel.push(1);
    await channel.push(2);
    let third = false;
    const pushed = channel.push(3).then(() => {
      third = true;
    });
    await Promise.resolve();
    expect(third).toBe(false);
    const values = channel.values();
    expect(await values.next()).toEqual({ value: 1, done: false });
    await pushed;
    expect(third).toBe(true);
  });

  it('hands over everything, then the end', async () => {
    const channel = createChannel<string>(4);
    await channel.push('a');
    await channel.push('b');
    channel.end();
    expect(await Array.fromAsync(channel.values())).toEqual(['a', 'b']);
  });

  it('passes an error on after the values before it', async () => {
    const channel = createChannel<string>(4);
    await channel.push('a');
    channel.end(new Error('broken'));
    const values = channel.values();
    expect((await values.next()).value).toBe('a');
    await expect(values.next()).rejects.toThrow('broken');
  });

  it('frees a waiting producer when the consumer is gone', async () => {
    const channel = createChannel<number>(1);
    await channel.push(1);
    const waiting = channel.push(2);
    channel.close();
    expect(await waiting).toBe(false);
  });
});
