import { describe, expect, it } from 'vitest';
import { createWordTable } from './word-table.ts';

const find = (table: ReturnType<typeof createWordTable>, word: string) => table.find(word, 0, word.length);

describe('createWordTable', () => {
  it('finds every word among thousands, and no other', () => {
    const words = Array.from({ length: 20_000 }, (_, id) => [`w${id.toString(36)}`, id] as const);
    const table = createWordTable(words, false);
    expect(words.every(([word, id]) => find(table, word) === id)).toBe(true);
    expect(words.some(([word]) => find(table, `${word}'`) !== -1 || find(table, `x${word}`) !== -1)).toBe(false);
  });

  it('distinguishes words of up to twelve letters by all of their letters', () => {
    const words = ['aaaabbbbcccc', 'baaabbbbcccc', 'aaaabbbbccc', 'aaaabbbb', 'aaaa', 'a'];
    const table = createWordTable(
      words.map((word, id) => [word, id]),
      false,
    );
    expect(words.map((word) => find(table, word))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(find(table, 'aaaabbbbcccca')).toBe(-1);
    expect(find(table, '\0aaaa')).toBe(-1);
  });

  it('reads a stretch of a longer text', () => {
    const table = createWordTable([['tree', 7]], false);
    expect(table.find('a tree grows', 2, 6)).toBe(7);
    expect(table.find('a tree grows', 2, 5)).toBe(-1);
  });

  it('ignores the case of the text if asked to, but not that of the vocabulary', () => {
    const words = [
      ['tree', 1],
      ['USA', 2],
    ] as const;
    expect(['Tree', 'USA', 'usa'].map((word) => find(createWordTable(words, true), word))).toEqual([1, -1, -1]);
    expect(['Tree', 'USA', 'usa'].map((word) => find(createWordTable(words, false), word))).toEqual([-1, 2, -1]);
  });

  it('finds no words with other letters and no long words', () => {
    const table = createWordTable(
      [
        ['größe', 1],
        ['extraordinarily', 2],
      ],
      true,
    );
    expect([find(table, 'größe'), find(table, 'extraordinarily'), find(table, '')]).toEqual([-1, -1, -1]);
  });
});
