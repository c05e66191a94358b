import { literal } from '../grammar/grammar-rules.ts';
import {
  type ArgumentsReader,
  type CallSyntax,
  type JsonArguments,
  NAME_CHARACTERS,
  type TaggedArguments,
} from './call-syntax.ts';
import { createJsonReader } from './json-reader.ts';
import { tagTool } from './tagged-grammar.ts';
import { createTaggedReader } from './tagged-reader.ts';
import type { CallableTool } from './tool-calls.ts';

/** How calls of one tool are written in a syntax. */
export interface CallForm {
  name: string;
  /** What may end the name. */
  endings: readonly NameEnding[];
  /** GBNF of what is generated after that. */
  grammar: string;
  createReader(): ArgumentsReader;
}

export interface NameEnding {
  text: string;
  /** Fixed text from there to what is generated; undefined: the call has ended, without arguments. */
  insert: string | undefined;
}

/** Undefined: the syntax cannot hold the arguments of one of these tools. */
export function callForms(tools: readonly CallableTool[], syntax: CallSyntax): CallForm[] | undefined {
  const { arguments: written } = syntax;
  const forms = tools.flatMap((tool) =>
    written.kind === 'json' ? jsonCall(tool, written) : (taggedCall(tool, written) ?? []),
  );
  return forms.length === tools.length ? forms : undefined;
}

const jsonCall = ({ name, grammar }: CallableTool, { nameEnd, middle }: JsonArguments): CallForm => ({
  name,
  endings: [{ text: nameEnd, insert: middle }],
  grammar,
  createReader: createJsonReader,
});

function taggedCall({ name, tagged }: CallableTool, written: TaggedArguments): CallForm | undefined {
  const tool = tagged && NAME_CHARACTERS.test(name) ? tagTool(tagged, written) : undefined;
  if (!tool) return undefined;
  const { lead, beforeKey, end } = written;
  return {
    name,
    endings: [
      ...(tool.grammar === undefined ? [] : [{ text: lead + beforeKey, insert: '' }]),
      ...(tool.mayBeEmpty ? [{ text: lead + end, insert: undefined }] : []),
    ],
    grammar: tool.grammar ?? '',
    createReader: () => createTaggedReader(written, tool.kinds),
  };
}

/** One of the names, with what ends it. */
export const nameGrammar = (forms: readonly CallForm[]) => `root ::= ${endedNames(forms)}`;

const endedNames = (forms: readonly CallForm[]) =>
  forms.flatMap(({ name, endings }) => endings.map(({ text }) => literal(name + text))).join(' | ');

/** After a call: what begins the next one, or the end. */
export const nextCallGrammar = (next: string, end: string) =>
  end === '' ? `root ::= ${literal(next)}?` : `root ::= ${literal(next)} | ${literal(end)}`;

/** What stands for a call where text must keep to a format: as much of it as opens one. */
export const openingGrammar = (forms: readonly CallForm[], { mark, open }: CallSyntax) =>
  mark === undefined ? `${literal(open)} (${endedNames(forms)})` : literal(mark);
