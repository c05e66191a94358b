import { MAX_LINE_BYTES } from '@baobab/core/domain/batch.ts';
import { expect, it } from 'vitest';
import { readLines } from './line-reader.ts';

async function lines(...chunks: (string | Uint8Array)[]) {
  async function* source() {
    for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
  }
  const found = await Array.fromAsync(readLines(source()));
  return found.map(({ bytes, ...line }) => ({ ...line, text: bytes?.toString() }));
}

it('yields lines with their numbers, without blank ones', async () => {
  expect(await lines('a\n\nb\r\n  \nc')).toEqual([
    { number: 1, end: 2, text: 'a' },
    { number: 3, end: 6, text: 'b\r' },
    { number: 5, end: 10, text: 'c' },
  ]);
  expect(await lines()).toEqual([]);
  expect(await lines('\n\n')).toEqual([]);
});

it('yields the same lines wherever chunks end, also within characters', async () => {
  const bytes = Buffer.from('{"a":"日本"}\n{"b":"🙂"}\n');
  const pieces = Array.from(bytes, (byte) => Uint8Array.of(byte));
  expect(await lines(...pieces)).toEqual([
    { number: 1, end: 15, text: '{"a":"日本"}' },
    { number: 2, end: 28, text: '{"b":"🙂"}' },
  ]);
});

it('removes a byte order mark', async () => {
  expect(await lines(Buffer.from([0xef, 0xbb, 0xbf]), '{}\n')).toEqual([{ number: 1, end: 6, text: '{}' }]);
});

it('reports a line that is not UTF-8 or too long, and continues', async () => {
  const half = 'x'.repeat(MAX_LINE_BYTES / 2 + 1);
  const found = await lines(Uint8Array.of(0xff, 10), half, half, '\nend');
  expect(found.map(({ number, text }) => [number, text])).toEqual([
    [1, undefined],
    [2, undefined],
    [3, 'end'],
  ]);
  expect(found[0]?.problem).toMatch(/UTF-8/);
  expect(found[1]?.problem).toMatch(/longer than/);
});
