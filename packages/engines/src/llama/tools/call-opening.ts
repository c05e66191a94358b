import { matchTokens } from '@baobab/core/engine/written-calls.ts';
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
