import { expect, it } from 'vitest';
import { hasControlCharacter, printable, printableLine } from './control-characters.ts';

it.each([
  '\u001b[2J',
  'a\nb',
  'a\tb',
  '\u007f',
  '\u009b31m',
  '\u2028',
  '\u202edrow',
  '\0',
  'a\u200b',
  '\ufeffa',
  '\u200f',
  'a\ud800',
  '\udc00\ud800',
])('finds one in %j', (text) => {
  expect(hasControlCharacter(text)).toBe(true);
});

it.each(['', 'my key', 'Schlüssel – 日本語 👩‍🚀', 'a"b\\c'])('finds none in %j', (text) => {
  expect(hasControlCharacter(text)).toBe(false);
  expect(printable(text)).toBe(text);
});

it('escapes them as JSON does, so that JSON stays the same value', () => {
  expect(printable('\u001b[2Ja\nb\u009b')).toBe('\\u001b[2Ja\nb\\u009b');
  expect(printableLine('a\nb')).toBe('a\\u000ab');
  const value = { name: 'x\u009b\u202e\u001b\u200b\ufeff' };
  expect(printable(value.name)).toBe('x\\u009b\\u202e\\u001b\\u200b\\ufeff');
  expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(value);
});
