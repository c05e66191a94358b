import { describe, expect, it } from 'vitest';
import type { ChatEvent, GenerationSink } from '../engine.ts';
import { pulledEvents } from './pulled-generation.ts';

const word = (text: string): ChatEvent => ({ type: 'text-delta', text });

describe('events that are pulled', () => {
  it('come one at a time, and only when they are asked for', async () => {
    const handed: string[] = [];
    const events = pulledEvents(async (take) => {
      for (const text of ['one', 'two', 'three']) {
        handed.push(text);
        await take(word(text));
      }
    });
    expect(handed).toEqual([]);
    expect(await events.next()).toEqual({ done: false, value: word('one') });
    expect(handed).toEqual(['one']);
    expect(await events.next()).toEqual({ done: false, value: word('two') });
    expect(await Array.fromAsync(events)).toEqual([word('three')]);
  });

  it('end with the failure of their source, after what came before it', async () => {
    const events = pulledEvents(async (take) => {
      await take(word('one'));
      throw new Error('broken');
    });
    expect(await events.next()).toEqual({ done: false, value: word('one') });
    await expect(events.next()).rejects.toThrow('broken');
  });

  it('stop their source when the consumer returns early, and wait until it has stopped', async () => {
    let stopped = false;
    const source = async (take: GenerationSink['deliver']): Promise<void> => {
      try {
        for (;;) await take(word('on'));
      } finally {
        await new Promise((resolve) => setImmediate(resolve));
        stopped = true;
      }
    };
    for await (const _ of pulledEvents(source)) break;
    expect(stopped).toBe(true);
  });
});
