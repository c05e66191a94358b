import { expect, it } from 'vitest';
import { createInnerText } from './inner-text.ts';

it.each([1, 2, 5, 100])('leaves out blanks around a text that arrives in pieces of %d', (size) => {
  const inner = createInnerText();
  const pieces = '\n\n One,  two.\n\nThree. \n'.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
  expect(pieces.map(inner.push).join('')).toBe('One,  two.\n\nThree.');
});

it('passes on endless blanks instead of collecting them', () => {
  const inner = createInnerText();
  expect(inner.push('a')).toBe('a');
  expect(inner.push(' '.repeat(1_000))).toBe(' '.repeat(1_000));
});
