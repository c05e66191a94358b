import { expect, it } from 'vitest';
import { systemCode, systemReason } from './system-reason.ts';

const error = (code: string, errno?: number) => Object.assign(new Error(`${code}: raw`), { code, errno });

it.each([
  ['EACCES', undefined, 'this user has no permission'],
  ['ENOTFOUND', -3008, 'the host name could not be resolved'],
  // Of libuv, which has a text for each of its codes.
  ['EXDEV', -18, 'cross-device link not permitted'],
])('says %s in words', (code, errno, words) => {
  expect(systemReason(error(code, errno))).toBe(words);
  expect(systemReason(new Error('fetch failed', { cause: error(code, errno) }))).toBe(words);
  expect(systemCode(new Error('fetch failed', { cause: error(code, errno) }))).toBe(code);
});

it('leaves other errors their own words', () => {
  expect(systemReason(new Error('fetch failed', { cause: new Error('bad header') }))).toBe('bad header');
  expect(systemReason(undefined)).toBe('the reason is unknown');
  expect(systemCode(Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG' }))).toBeUndefined();
  expect(systemReason(new DOMException('The operation was aborted', 'TimeoutError'))).toBe('it did not answer in time');
});
