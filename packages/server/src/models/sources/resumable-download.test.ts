import { describe, expect, it } from 'vitest';
import { WeightsError } from '../weights-error.ts';
import { resumableDownload } from './resumable-download.ts';

const CONTENT = Buffer.from('abcdefghij');

/** Gives `count` bytes from the offset on, then fails or falls silent until it is aborted. */
async function* body(
  offset: number,
  count: number,
  signal: AbortSignal,
  end: 'break' | 'stall',
): AsyncGenerator<Buffer> {
  yield CONTENT.subarray(offset, offset + count);
  if (offset + count >= CONTENT.length) return;
  if (end === 'stall') await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  throw new Error('cut');
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  let text = '';
  for await (const chunk of chunks) text += Buffer.from(chunk).toString();
  return text;
}

const never = new AbortController().signal;

describe('resumableDownload', () => {
  it.each(['break', 'stall'] as const)('goes on at the right byte after a %s', async (end) => {
    const offsets: number[] = [];
    const download = resumableDownload({
      signal: never,
      stallTimeoutMs: 20,
      retryDelayMs: 0,
      open: async (offset, signal) => {
        offsets.push(offset);
        return body(offset, 4, signal, end);
      },
    });
    expect(await collect(download)).toBe('abcdefghij');
    expect(offsets).toEqual([0, 4, 8]);
  });

  it('gives up after failures without a byte between them', async () => {
    let opened = 0;
    const download = resumableDownload({
      signal: never,
      retryDelayMs: 0,
      open: async () => {
        opened += 1;
        throw new Error('away');
      },
    });
    await expect(collect(download)).rejects.toThrow('away');
    expect(opened).toBe(3);
  });

  it('does not ask again for what was refused', async () => {
    let opened = 0;
    const download = resumableDownload({
      signal: never,
      open: async () => {
        opened += 1;
        throw new WeightsError('refused', 'no such file');
      },
    });
    await expect(collect(download)).rejects.toThrow('no such file');
    expect(opened).toBe(1);
  });

  it('ends at once when it is aborted', async () => {
    const controller = new AbortController();
    const download = resumableDownload({
      signal: controller.signal,
      open: async (offset, signal) => body(offset, 4, signal, 'stall'),
    });
    expect((await download.next()).value?.toString()).toBe('abcd');
    const next = download.next();
    controller.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
  });
});
