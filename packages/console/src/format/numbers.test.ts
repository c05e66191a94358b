import { describe, expect, it } from 'vitest';
import {
  bytes,
  COUNT_STEPS,
  compact,
  full,
  money,
  moneyAxis,
  moneyColumn,
  moneyExact,
  moneyOfLimit,
  percent,
} from './numbers.ts';

describe('numbers', () => {
  it('label counts with whole numbers', () => {
    expect(COUNT_STEPS.slice(0, 5)).toEqual([1, 2, 5, 10, 20]);
    expect(COUNT_STEPS.every(Number.isInteger)).toBe(true);
  });

  it('shortens from ten thousand on', () => {
    expect([0, 7.25, 999, 1234, 9999, 12_345, 1_234_567, 2e9].map(compact)).toEqual([
      ...['0', '7.25', '999', '1,234', '9,999', '12.3 k', '1.23 M', '2 B'],
    ]);
  });

  it('keeps every digit where it is asked to', () => {
    expect(full(1_234_567)).toBe('1,234,567');
  });

  it('gives money as many digits as it needs', () => {
    expect([0, 0.000016, 0.00306, 0.5, 12.4, 1204.51, 0.000000001].map(money)).toEqual([
      ...['$0', '$0.000016', '$0.00306', '$0.50', '$12.40', '$1,204.51', '$0.000000001'],
    ]);
  });

  it('writes exact money to the nano-dollar', () => {
    expect(moneyExact(18.358064101)).toBe('$18.358064101');
    expect(moneyExact(-0.5)).toBe('−$0.50');
    expect([0, 0.1564].map(moneyColumn)).toEqual(['$0.000000000', '$0.156400000']);
  });

  it.each([
    [0.000666983, 0.000667453, ['$0.000666983', '$0.000667453']],
    [4.9999996, 5, ['$4.9999996', '$5.00']],
    [0.000102, 5, ['$0.000102', '$5.00']],
    [12.3456, 20, ['$12.35', '$20.00']],
    [5, 5, ['$5.00', '$5.00']],
    [0, 0.000000453, ['$0', '$0.000000453']],
  ])('tells %d from a limit of %d', (spent, limit, shown) => {
    expect(moneyOfLimit(spent, limit)).toEqual(shown);
  });

  it('gives the labels of an axis the same digits', () => {
    expect(moneyAxis([0, 0.005, 0.01])).toEqual(['$0', '$0.005', '$0.010']);
    expect(moneyAxis([0, 1, 2])).toEqual(['$0', '$1.00', '$2.00']);
  });

  it('writes shares and sizes', () => {
    expect([0, 0.0001, 0.004, 0.123, 0.99, 0.9992, 0.99951, 1].map(percent)).toEqual([
      ...['0 %', '< 0.1 %', '0.4 %', '12 %', '99 %', '99.9 %', '> 99.9 %', '100 %'],
    ]);
    expect([12, 1234, 270_000_000].map(bytes)).toEqual(['12 B', '1.23 kB', '270 MB']);
  });
});
