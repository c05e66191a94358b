import { expect, it } from 'vitest';
import { grammarCharacters } from './request-grammars.ts';

it('counts the grammars of the format and of tools, in JSON and between tags', () => {
  const tagged = { rules: [['name', 'x'.repeat(500)] as const], members: [] };
  const calls = { forced: false, parallel: true, tools: [{ name: 't', grammar: 'x'.repeat(300), tagged }] };
  expect(grammarCharacters({ format: 'x'.repeat(20), calls })).toBe(20 + 300 + 'name'.length + 500);
  expect(grammarCharacters({})).toBe(0);
});
