import { createHash, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createSecret, displayPrefix, hashSecret, isPlausibleSecret } from './key-secret.ts';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const fixed = createSecret((size) => new Uint8Array(size).fill(7));

describe('keys of our own shape', () => {
  it('are a prefix and 40 base62 characters', () => {
    for (let round = 0; round < 200; round += 1) expect(createSecret(randomBytes)).toMatch(/^bao_sk_[0-9A-Za-z]{40}$/);
  });

  it('follow from the random bytes alone', () => {
    expect(createSecret((size) => new Uint8Array(size).fill(7))).toBe(fixed);
    expect(createSecret((size) => new Uint8Array(size).fill(8))).not.toBe(fixed);
  });

  it('are plausible, and invalid with any single character changed', () => {
    expect(isPlausibleSecret(fixed)).toBe(true);
    for (let index = 'bao_sk_'.length; index < fixed.length; index += 1) {
      for (const letter of ALPHABET) {
        const changed = fixed.slice(0, index) + letter + fixed.slice(index + 1);
        expect(isPlausibleSecret(changed), changed).toBe(letter === fixed[index]);
      }
    }
  });

  it('are invalid with swapped, lost or added characters', () => {
    for (let index = 'bao_sk_'.length; index < fixed.length - 1; index += 1) {
      const swapped = fixed.slice(0, index) + fixed[index + 1] + fixed[index] + fixed.slice(index + 2);
      if (swapped !== fixed) expect(isPlausibleSecret(swapped)).toBe(false);
    }
    expect(isPlausibleSecret(fixed.slice(0, -1))).toBe(false);
    expect(isPlausibleSecret(`${fixed}0`)).toBe(false);
    expect(isPlausibleSecret(`${fixed}\n`)).toBe(false);
  });

  it('show eleven characters for display', () => {
    expect(displayPrefix(fixed)).toBe(fixed.slice(0, 11));
  });
});

describe('keys that an operator chose', () => {
  it.each(['0123456789abcdef', 'x'.repeat(200), 'sk-proj-!"#$%&/()=?'])('may be %s', (secret) => {
    expect(isPlausibleSecret(secret)).toBe(true);
  });

  it.each(['0123456789abcde', 'x'.repeat(201), 'with a space 0123', 'umlaut-ä-0123456', 'line\nbreak-012345', ''])(
    'may not be %j',
    (secret) => expect(isPlausibleSecret(secret)).toBe(false),
  );

  it('show only four characters for display', () => {
    expect(displayPrefix('0123456789abcdef')).toBe('0123');
  });
});

it('stores the SHA-256 of a secret, in hex', () => {
  expect(hashSecret('abc')).toBe(createHash('sha256').update('abc').digest('hex'));
});
