import { describe, expect, it } from 'vitest';
import { languageTag } from './language.ts';

describe('the language of charts', () => {
  it.each([
    ['sw-KE', 'sw-KE'],
    ['en-US@posix', 'en-US'],
    ['', 'en-US'],
    ['C', 'en-US'],
  ])('%j is %s', (language, tag) => {
    expect(languageTag(language)).toBe(tag);
  });
});
