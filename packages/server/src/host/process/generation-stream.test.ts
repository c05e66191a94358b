import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { describe, expect, it, vi } from 'vitest';
import { GenerationStream, STREAM_CREDIT } from './generation-stream.ts';

const usage = (completionTokens: number) => ({ promptTokens: 3, completionTokens, cachedTokens: 0 });
const word = (text: string): ChatEvent => ({ type: 'text-delta', text });

/** A stream whose frames the test sends. */
function build(deliver: (event: ChatEvent) => void | Promise<void> = () => {}) {
  const client = new AbortController();
  const context = { requestId: '', accountId: '', keyId: '', priority: 'interactive' as const, signal: client.signal };
  const delivered: ChatEvent[] = [];
  const used = vi.fn();
  const control = { cancel: vi.fn(), credit: vi.fn() };
  const stream = new GenerationStream(context, {
    deliver(event) {
      delivered.push(event);
      return deliver(event);
    },
    used,
  });
  const ended = stream.run(async () => control);
  ended.catch(() => {});
  return { client, delivered, used, control, stream, ended };
}

describe('a stream of an engine process', () => {
  it('hands events to the sink as their frames arrive, and ends after the last', async () => {
    const { delivered, used, stream, ended } = build();
    stream.onEvent(word('one'), usage(1));
    expect(delivered).toEqual([word('one')]);
    expect(used).toHaveBeenLastCalledWith(usage(1));
    stream.onEnd(usage(2));
    await ended;
    expect(used).toHaveBeenLastCalledWith(usage(2));
  });

  it('keeps events while the sink is busy, and fails only when it has taken them', async () => {
    let taken = () => {};
    const { delivered, stream, ended } = build(() => new Promise((resolve) => (taken = resolve)));
    stream.onEvent(word('one'), usage(1));
    stream.onEvent(word('two'), usage(2));
    stream.onError(new Error('crashed'));
    expect(delivered).toEqual([word('one')]);
    taken();
    await vi.waitFor(() => expect(delivered).toEqual([word('one'), word('two')]));
    taken();
    await expect(ended).rejects.toThrow('crashed');
  });

  it('lets the engine send more when half of what it may send was taken', async () => {
    const { control, stream } = build();
    await Promise.resolve();
    for (let n = 1; n < STREAM_CREDIT / 2; n += 1) stream.onEvent(word('on'), usage(n));
    expect(control.credit).not.toHaveBeenCalled();
    stream.onEvent(word('on'), usage(STREAM_CREDIT / 2));
    expect(control.credit).toHaveBeenCalledExactlyOnceWith(STREAM_CREDIT / 2);
  });

  it('says that the engine is blocked only when the sink takes nothing', async () => {
    const { stream } = build(() => new Promise(() => {}));
    for (let n = 1; n < STREAM_CREDIT; n += 1) stream.onEvent(word('on'), usage(n));
    expect(stream.isBlocked).toBe(false);
    stream.onEvent(word('on'), usage(STREAM_CREDIT));
    expect(stream.isBlocked).toBe(true);
  });

  it('is cancelled when the client leaves, and ends with what the engine used until then', async () => {
    const { client, delivered, used, control, stream, ended } = build();
    await Promise.resolve();
    stream.onEvent(word('one'), usage(1));
    client.abort();
    expect(control.cancel).toHaveBeenCalledOnce();
    stream.onEvent(word('two'), usage(2));
    stream.onError(new Error('cancelled'), usage(3));
    await expect(ended).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(delivered).toEqual([word('one')]);
    expect(used).toHaveBeenLastCalledWith(usage(3));
  });

  it('is cancelled when the sink throws, and fails with that error', async () => {
    const { control, stream, ended } = build(() => {
      throw new Error('full');
    });
    await Promise.resolve();
    stream.onEvent(word('one'), usage(1));
    expect(control.cancel).toHaveBeenCalledOnce();
    stream.onEnd(usage(1));
    await expect(ended).rejects.toThrow('full');
  });

  it('does not wait for ever for an engine that does not stop', async () => {
    vi.useFakeTimers();
    try {
      const { client, ended } = build();
      await Promise.resolve();
      client.abort();
      await vi.advanceTimersByTimeAsync(5_000);
      await expect(ended).rejects.toMatchObject({ code: 'client_cancelled' });
    } finally {
      vi.useRealTimers();
    }
  });
});
