import { expect, it } from 'vitest';
import { isCompleteLock } from '../scripts/install.mjs';

const lock = (locked: readonly string[]) => {
  const packages: Record<string, object> = {
    '': {},
    'node_modules/tool': { optionalDependencies: { '@tool/linux': '1.0.0', '@tool/mac': '1.0.0' } },
  };
  for (const name of locked) packages[`node_modules/${name}`] = {};
  return JSON.stringify({ packages });
};

it('calls a lock file complete when it has the packages of every platform', () => {
  expect(isCompleteLock(lock(['@tool/linux', '@tool/mac']))).toBe(true);
  expect(isCompleteLock(lock(['tool/node_modules/@tool/linux', '@tool/mac']))).toBe(true);
  expect(isCompleteLock(lock(['@tool/linux']))).toBe(false);
});
