import { describe, expect, it } from 'vitest';
import { cutBetween, cutTokens, pairIn, roomIn, tokenLimit } from './truncation.ts';

const ids = Int32Array.of(101, 1, 2, 3, 4, 5, 102);

describe('an input that is cut', () => {
  it('keeps its special tokens, and one side of the others', () => {
    const marks = { first: 1, last: 1 };
    expect([...cutBetween(ids, 4, { side: 'end', ...marks })]).toEqual([101, 1, 2, 102]);
    expect([...cutBetween(ids, 4, { side: 'start', ...marks })]).toEqual([101, 4, 5, 102]);
    expect([...cutBetween(ids, 3, { side: 'start', first: 0, last: 0 })]).toEqual([4, 5, 102]);
    expect([...cutTokens(ids, 100, 'start')]).toEqual([...ids]);
    expect([...cutTokens(ids, 0, 'start')]).toEqual([]);
  });

  it('has one token besides them at least', () => {
    expect(roomIn(3, 2)).toBe(1);
    expect(() => roomIn(2, 2)).toThrow("'truncation.maxTokens' must be at least 3");
    expect(() => roomIn(4, 3, 2)).toThrow('at least 5');
  });

  it('has no more tokens than the context', () => {
    expect(tokenLimit({ side: 'end' }, 512)).toBe(512);
    expect(tokenLimit({ side: 'end', maxTokens: 40 }, 512)).toBe(40);
    expect(tokenLimit({ side: 'end', maxTokens: 600 }, 512)).toBe(512);
  });
});

it('a query and a document share the room, and the longer one is cut first', () => {
  expect(pairIn(10, 3, 4)).toEqual({ query: 3, document: 4 });
  expect(pairIn(10, 3, 400)).toEqual({ query: 3, document: 7 });
  expect(pairIn(10, 300, 4)).toEqual({ query: 6, document: 4 });
  expect(pairIn(11, 300, 400)).toEqual({ query: 5, document: 6 });
  for (let room = 2; room < 9; room += 1)
    for (let query = 1; query < 12; query += 1)
      for (let document = 1; document < 12; document += 1) {
        const most = pairIn(room, query, document);
        expect(most.query + most.document).toBe(Math.min(room, query + document));
        expect(Math.min(most.query, most.document)).toBeGreaterThan(0);
      }
});
