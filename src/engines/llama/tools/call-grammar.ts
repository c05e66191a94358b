import { literal } from '../grammar/grammar-rules.ts';
import type { CallForm } from './call-form.ts';
import type { CallSyntax } from './call-syntax.ts';

/** One of the names, with what ends it. */
export const nameGrammar = (forms: readonly CallForm[]) => `root ::= ${endedNames(forms)}`;

const endedNames = (forms: readonly CallForm[]) =>
  forms.flatMap(({ name, endings }) => endings.map(({ text }) => literal(name + text))).join(' | ');

/** After a call: what begins the next one, or the end. */
export const choiceGrammar = (next: string, end: string) =>
  end === '' ? `root ::= ${literal(next)}?` : `root ::= ${literal(next)} | ${literal(end)}`;

/** What stands for a call where text must keep to a format: as much of it as opens one. */
export const openingGrammar = (forms: readonly CallForm[], { mark, open }: CallSyntax) =>
  mark === undefined ? `${literal(open)} (${endedNames(forms)})` : literal(mark);
