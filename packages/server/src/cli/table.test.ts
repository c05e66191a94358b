import { expect, it } from 'vitest';
import { table } from './table.ts';

it('aligns columns and leaves the last one unpadded', () => {
  expect(table(['ID', 'NAME'], [['key_1', 'ci']])).toBe('ID     NAME\nkey_1  ci');
});

it('escapes control characters, so that a name can neither move the cursor nor start a line', () => {
  expect(table(['NAME', 'ID'], [['\u001b[2Ja\nb', 'key_1']])).toBe('NAME               ID\n\\u001b[2Ja\\u000ab  key_1');
});

it('puts numbers on the right, below their heading', () => {
  const rows = [
    ['a', '7', '$0.25', '98.4 MB', 'x'],
    ['b', '1,234', '-', '1.12 GB', 'y'],
  ];
  expect(table(['NAME', 'REQUESTS', 'COST', 'SIZE', 'KIND'], rows).split('\n')).toEqual([
    'NAME  REQUESTS   COST     SIZE  KIND',
    'a            7  $0.25  98.4 MB  x',
    'b        1,234      -  1.12 GB  y',
  ]);
});
