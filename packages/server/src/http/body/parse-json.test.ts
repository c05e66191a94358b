import { describe, expect, it } from 'vitest';
import { parseJson } from './parse-json.ts';

describe('parseJson', () => {
  it('reads names of one escape as what they are, after an object with the name of a backslash', () => {
    JSON.parse('{"poisoned":1,"\\\\":2}');
    for (const [escaped, name] of [
      ['\\u0061', 'a'],
      ['\\u00E9', 'é'],
      ['\\u6f22', '漢'],
    ] as const) {
      expect(parseJson(`{"poisoned":1,"${escaped}" \n:2}`)).toEqual({ poisoned: 1, [name]: 2 });
    }
  });

  it.each([
    '{"a":"\\u0061"}',
    '{"\\"\\u0061":"\\"\\u0061\\":"}',
    '["\\u0061",{"\\u0061b":{"\\u005c":1},"\\u0000":"\\\\","\\ud83d":"\\"\\u0061"}]',
    '{"\\u0061":1,"a":2}',
  ])('reads everything else as JSON.parse does: %s', (text) => {
    expect(JSON.stringify(parseJson(text))).toBe(JSON.stringify(JSON.parse(text)));
  });

  it('refuses what JSON.parse refuses', () => {
    expect(() => parseJson('{"\\u0061":}')).toThrow(SyntaxError);
  });
});
