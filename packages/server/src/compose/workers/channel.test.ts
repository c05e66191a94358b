import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { createChannel, type Handlers } from './channel.ts';

/** Two ends that send messages to each other. */
function pair(left: Handlers, right: Handlers) {
  const [one, two] = [new EventEmitter(), new EventEmitter()];
  const end = (own: EventEmitter, other: EventEmitter) => ({
    send: (message: object) => setImmediate(() => other.emit('message', structuredClone(message))),
    on: (_event: 'message', listener: (message: unknown) => void) => own.on('message', listener),
  });
  return { one, left: createChannel(end(one, two), left), right: createChannel(end(two, one), right) };
}

describe('channel of a worker', () => {
  it('answers questions of both sides at once', async () => {
    const { left, right } = pair({ name: () => 'left' }, { double: async (value) => Number(value) * 2 });
    const answers = [left.ask('double', 3), right.ask('name'), left.ask('double', 5)];
    expect(await Promise.all(answers)).toEqual([6, 'left', 10]);
  });

  it('passes on a failure and ignores messages of others', async () => {
    const fail = () => {
      throw new Error('no catalog');
    };
    const { left, one } = pair({}, { reload: fail });
    one.emit('message', { cmd: 'NODE_CLUSTER' });
    one.emit('message', 'text');
    await expect(left.ask('reload')).rejects.toThrow('no catalog');
  });

  it('rejects what is open when the other side is gone, and what is answered too late', async () => {
    const never = () => new Promise(() => {});
    const { left } = pair({}, { wait: never });
    await expect(left.ask('wait', undefined, { timeoutMs: 1 })).rejects.toThrow("no answer to 'wait' within 1 ms");
    const open = left.ask('wait', undefined, { timeoutMs: undefined });
    left.close();
    await expect(open).rejects.toThrow('gone');
  });
});
