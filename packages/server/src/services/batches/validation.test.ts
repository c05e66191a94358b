import { describe, expect, it } from 'vitest';
import { createInputCutter } from './batch-job.ts';
import { readLines } from './line-reader.ts';

async function* chunks(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}

async function slicesOf(text: string, size = 7) {
  const cutter = createInputCutter();
  for await (const line of readLines(chunks(text, size))) cutter.add(line);
  return cutter.slices();
}

describe('the slices of an input', () => {
  it.each([
    ['one line', 'a'],
    ['a few lines', 'a\nbb\nccc\n'],
    [
      'blank lines, long ones and a byte order mark',
      `\uFEFF\n\na\n${'x'.repeat(100)}\n \n${'üb\n\r\n'.repeat(40)}\n\n`,
    ],
    ['more lines than slices', 'line\n'.repeat(5_000)],
  ])('hold every line once, at its place: %s', async (_, text) => {
    const whole: unknown[] = [];
    for await (const { number, bytes } of readLines(chunks(text, 1_000))) whole.push([number, bytes?.toString()]);
    const slices = await slicesOf(text);
    const bytes = Buffer.from(text);
    const found: unknown[] = [];
    for (const { firstLine, lastLine, start, bytes: length } of slices) {
      const part = chunks(bytes.subarray(start, start + length).toString(), 5);
      for await (const line of readLines(part, firstLine)) {
        expect(line.number).toBeLessThanOrEqual(lastLine);
        found.push([line.number, line.bytes?.toString()]);
      }
    }
    expect(found).toEqual(whole);
  });

  it('are small in a small batch and few in a large one', async () => {
    expect(await slicesOf('x\n'.repeat(8))).toHaveLength(1);
    expect(await slicesOf('x\n'.repeat(400))).toHaveLength(50);
    expect((await slicesOf('x\n'.repeat(50_000), 10_000)).length).toBeLessThanOrEqual(256);
    expect((await slicesOf('x\n'.repeat(50_000), 10_000)).length).toBeGreaterThan(200);
  });

  it('are none without lines', async () => {
    expect(await slicesOf('\n\n')).toEqual([]);
  });
});
