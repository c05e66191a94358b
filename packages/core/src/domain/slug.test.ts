import { describe, expect, it } from 'vitest';
import { isSlug, matchesPattern, parseReference, providerOf } from './slug.ts';

describe('slugs and pins', () => {
  it.each(['baobab/kora', 'baai/bge-small-en-v1.5', 'a/b', 'qwen/qwen2.5-0.5b-instruct', '0/0_0'])(
    'takes %s',
    (slug) => {
      expect(isSlug(slug)).toBe(true);
      expect(parseReference(slug)).toEqual({ slug, version: undefined });
    },
  );

  it.each([
    '',
    'kora',
    '/kora',
    'baobab/',
    'a/b/c',
    'Baobab/kora',
    'a b/c',
    'a/ü',
    '../etc',
    'a/../b',
    `a/${'b'.repeat(200)}`,
  ])('refuses %j', (text) => {
    expect(isSlug(text)).toBe(false);
    expect(parseReference(text)).toBeUndefined();
  });

  it('reads a pin', () => {
    expect(parseReference('baobab/kora@2026-01-31')).toEqual({ slug: 'baobab/kora', version: '2026-01-31' });
  });

  it.each(['a/b@', 'a/b@2026-02-30', 'a/b@2026-1-31', 'a/b@latest', 'a/b@2026-01-31@2026-01-31', '@2026-01-31'])(
    'refuses the pin of %s',
    (text) => expect(parseReference(text)).toBeUndefined(),
  );

  it('names the provider', () => {
    expect(providerOf('baobab/kora-mini')).toBe('baobab');
  });
});

describe('patterns of models', () => {
  it.each([
    ['baobab/kora', 'baobab/kora', true],
    ['baobab/kora-mini', 'baobab/kora', false],
    ['baobab/kora', 'baobab/*', true],
    ['qwen/baobab', 'baobab/*', false],
    ['baobab/kora', '*', true],
    ['baobab/kora-mini', '*/kora*', true],
    ['baai/bge-m3', 'baai/bge.m3', false],
    ['baai/bge-m3', 'baai/(bge)-m3', false],
    ['baobab/kora', '', false],
    ['a/b', 'a/b*b', false],
    ['a/bb', 'a/b*b', true],
    ['a/bcb', 'a/*c*b', true],
    ['a/bb', 'a/*c*b', false],
    ['a/b', 'a/b**', true],
  ])('%s against %s: %s', (slug, pattern, matches) => {
    expect(matchesPattern(slug, pattern)).toBe(matches);
  });

  it('takes no time for a pattern of many stars', () => {
    expect(matchesPattern(`a/${'a'.repeat(190)}`, `${'*a'.repeat(90)}*b`)).toBe(false);
  });
});
