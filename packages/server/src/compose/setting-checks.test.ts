import { expect, it } from 'vitest';
import { loadConfig } from '../config/load.ts';
import { multiServerWarnings } from './setting-checks.ts';

const warnings = (env: Record<string, string>) =>
  multiServerWarnings(loadConfig({ args: [], env, workingDirectory: '/' }).config).map((line) => line.split(' ')[0]);

const BAOBAB_STORE = 'postgres://127.0.0.1/baobab';
const BAOBAB_COUNTERS = 'redis://127.0.0.1';
const BAOBAB_BLOBS = 's3://bucket';

it('warns about parts that several servers would not share', () => {
  expect(warnings({})).toEqual([]);
  expect(warnings({ BAOBAB_STORE })).toEqual(['counters', 'blobs']);
  expect(warnings({ BAOBAB_STORE, BAOBAB_COUNTERS })).toEqual(['blobs']);
  expect(warnings({ BAOBAB_STORE, BAOBAB_BLOBS })).toEqual(['counters']);
  expect(warnings({ BAOBAB_COUNTERS })).toEqual(['counters']);
  expect(warnings({ BAOBAB_STORE, BAOBAB_COUNTERS, BAOBAB_BLOBS })).toEqual([]);
});
