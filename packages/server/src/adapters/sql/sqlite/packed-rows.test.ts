import { expect, it } from 'vitest';
import { PackedRows } from './packed-rows.ts';

const collected = () => {
  const groups: unknown[] = [];
  const rows = new PackedRows(async (json) => {
    groups.push(JSON.parse(Buffer.from(json).toString()));
  });
  return { rows, groups };
};

it('packs rows of any size and text', async () => {
  const { rows, groups } = collected();
  const values = Array.from({ length: 300 }, (_, index) => [index, null, 0.5, '“ü”'.repeat(index), '\ud83c\udf33 "\n']);
  for (const each of values) rows.add(each);
  expect(rows.size).toBe(300);
  await rows.insert();
  expect(groups).toEqual([values]);
});

it('grows for a row that takes the last byte', async () => {
  for (let length = 32_760; length < 32_770; length += 1) {
    const { rows, groups } = collected();
    rows.add(['x'.repeat(length)]);
    rows.add([1]);
    await rows.insert();
    expect(groups).toEqual([[['x'.repeat(length)], [1]]]);
  }
});

it('inserts nothing without rows', async () => {
  const { rows, groups } = collected();
  await rows.insert();
  expect(groups).toEqual([]);
});
