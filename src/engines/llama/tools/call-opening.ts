import type { CallForm } from './call-form.ts';

/** Whether an answer begins with a call: undecided, no, or yes, with the name ending at `end`. */
export type OpeningMatch = 'open' | 'no' | { name: string; end: number };

/**
 * Recognises a call at the very start of an answer, for models that do not mark calls in any other way. It must have the name of a
 * tool; other JSON is an answer. White space is free, and a "type" before the name is allowed, because definitions have one.
 */
export function createOpening(open: string, forms: readonly CallForm[]): (text: string) => OpeningMatch {
  const lead = open.match(/"[^"]*"|[^\s"]/g) ?? [];
  const ended = (name: string, end: string) => (open.endsWith('"') && end === '"' ? `"${name}"` : name + end);
  const leads = lead[0] === '{' ? [lead, ['{', '"type"', ':', '"function"', ',', ...lead.slice(1)]] : [lead];
  const candidates = leads.flatMap((tokens) =>
    forms.flatMap(({ name, endings }) => endings.map(({ text }) => ({ name, tokens: [...tokens, ended(name, text)] }))),
  );
  return (text) => {
    let undecided = false;
    for (const { name, tokens } of candidates) {
      const match = matchTokens(text, tokens);
      if (match === 'open') undecided = true;
      else if (match !== 'no') return { name, end: match };
    }
    return undecided ? 'open' : 'no';
  };
}

/** Where the last of the tokens ends in a text that begins with them, with or without white space between them. */
export function matchTokens(text: string, tokens: readonly string[]): number | 'open' | 'no' {
  let at = 0;
  for (const token of tokens) {
    while (/\s/.test(text[at] ?? '')) at++;
    const found = text.slice(at, at + token.length);
    if (found !== token) return at + found.length === text.length && token.startsWith(found) ? 'open' : 'no';
    at += token.length;
  }
  return at;
}
