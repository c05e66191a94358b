import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { patientTimeout, untilAborted } from './abort.ts';

const never = () => new Promise<never>(() => {});

describe('untilAborted', () => {
  it('returns the result of the work', async () => {
    expect(await untilAborted(Promise.resolve(7), new AbortController().signal)).toBe(7);
  });

  it('throws the error of the work', async () => {
    await expect(untilAborted(Promise.reject(new Error('broken')), new AbortController().signal)).rejects.toThrow(
      'broken',
    );
  });

  it('throws the reason when the signal fires first', async () => {
    const stop = new AbortController();
    const result = untilAborted(never(), stop.signal);
    stop.abort(new Error('stopped'));
    await expect(result).rejects.toThrow('stopped');
  });

  it('does not wait when the signal has already fired', async () => {
    await expect(untilAborted(never(), AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped');
  });

  it('throws the given error even when the work rejects because of the signal', async () => {
    const stop = new AbortController();
    const { promise, reject } = Promise.withResolvers<never>();
    stop.signal.addEventListener('abort', () => reject(stop.signal.reason));
    const result = untilAborted(promise, stop.signal, () => new Error('cancelled'));
    stop.abort(new Error('stopped'));
    await expect(result).rejects.toThrow('cancelled');
  });
});

describe('patientTimeout', () => {
  it('fires after the time, with an error that says so', async () => {
    const start = performance.now();
    const signal = patientTimeout(50);
    await once(signal, 'abort');
    expect(performance.now() - start).toBeGreaterThan(45);
    expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
  });

  it('lets an answer come first that arrived while the process was busy', async () => {
    const answer = fetch('http://127.0.0.1:2', { signal: patientTimeout(200) });
    const busyUntil = performance.now() + 400;
    while (performance.now() < busyUntil);
    await expect(answer).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });
});
