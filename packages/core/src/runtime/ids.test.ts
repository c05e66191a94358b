import { expect, it } from 'vitest';
import { createId, createOrderedId } from './ids.ts';

it('has a prefix and 24 lowercase characters', () => {
  expect(createId('req')).toMatch(/^req_[0-9a-z]{24}$/);
});

it('sorts by time', () => {
  const times = [0, 1, 35, 36, 1_700_000_000_000, 1_794_722_272_865, 1_794_722_272_866, 4_000_000_000_000];
  const ids = times.map((time) => createId('key', time));
  expect(ids.toSorted()).toEqual(ids);
});

it('does not repeat within a millisecond', () => {
  const ids = new Set(Array.from({ length: 10_000 }, () => createId('file', 1_794_722_272_865)));
  expect(ids.size).toBe(10_000);
});

it('sorts ordered ids by time, then in the order in which they were made', () => {
  const ids = [1, 1, 1, 2, 2, 36].flatMap((time) => Array.from({ length: 50 }, () => createOrderedId('audit', time)));
  expect(ids.toSorted()).toEqual(ids);
  expect(ids[0]).toMatch(/^audit_[0-9a-z]{24}$/);
  expect(new Set(ids).size).toBe(ids.length);
});
