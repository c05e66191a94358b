import { createJsonReader } from '@baobab/core/engine/written-calls.ts';
import { literal } from '../grammar/grammar-rules.ts';
import {
  type ArgumentsReader,
  type CallSyntax,
  type JsonArguments,
  NAME_CHARACTERS,
  type TaggedArguments,
} from './call-syntax.ts';
import { tagTool } from './tagged-grammar.ts';
import { createTaggedReader } from './tagged-reader.ts';
import type { CallableTool } from './tool-calls.ts';

/** How calls of one tool are written in a syntax. */
export interface CallForm {
  name: string;
  /** Texts that may end the name. */
  endings: readonly NameEnding[];
  /** GBNF of the text after that. */
  grammar: string;
  createReader(): ArgumentsReader;
}

export interface NameEnding {
  text: string;
  /** Fixed text before the generated arguments. Undefined: the call has no arguments and has ended. */
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

/** One of the names and its ending. */
export const nameGrammar = (forms: readonly CallForm[]) => `root ::= ${endedNames(forms)}`;

const endedNames = (forms: readonly CallForm[]) =>
  forms.flatMap(({ name, endings }) => endings.map(({ text }) => literal(name + text))).join(' | ');

/** After a call: the beginning of the next one, or the end. */
export const nextCallGrammar = (next: string, end: string) =>
  end === '' ? `root ::= ${literal(next)}?` : `root ::= ${literal(next)} | ${literal(end)}`;

/** The beginning of a call, as an alternative in the grammar of a format. */
export const openingGrammar = (forms: readonly CallForm[], { mark, open }: CallSyntax) =>
  mark === undefined ? `${literal(open)} (${endedNames(forms)})` : literal(mark);
