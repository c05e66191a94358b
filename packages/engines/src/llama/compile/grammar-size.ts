import type { RequestGrammars } from './request-grammars.ts';

/** Characters of all texts in the grammars. */
export function grammarCharacters({ format = '', calls }: RequestGrammars): number {
  const ofTools = (calls?.tools ?? []).map(({ grammar, tagged }) => {
    const rules = tagged?.rules.map(([name, body]) => name.length + body.length) ?? [];
    return rules.reduce((sum, length) => sum + length, grammar.length);
  });
  return ofTools.reduce((sum, length) => sum + length, format.length);
}
