import { errors } from '../../errors/errors.ts';
import type { ToolChoice, ToolDefinition } from '../engine.ts';
import type { CallSyntax } from './call-syntax.ts';
import { literal } from './grammar-rules.ts';
import { schemaGrammar } from './schema-grammar.ts';

/** What may be called in one answer, and how. */
export interface CallPlan {
  /** A call must come at once; otherwise only after the model itself wrote the opening mark. */
  forced: boolean;
  /** More than one call may follow. */
  parallel: boolean;
  tools: readonly CallableTool[];
}

export interface CallableTool {
  name: string;
  /** GBNF of its arguments. */
  grammar: string;
}

export interface CallRequest {
  tools: readonly ToolDefinition[] | undefined;
  choice: ToolChoice | undefined;
  parallel: boolean;
}

/** Undefined: this answer is text. */
export function planCalls({ tools = [], choice = 'auto', parallel }: CallRequest): CallPlan | undefined {
  if (choice === 'none') return undefined;
  if (tools.length === 0) {
    if (choice === 'auto') return undefined;
    throw errors.invalidParameter('tool_choice', "'tool_choice' asks for a tool call, but 'tools' is empty.");
  }
  const named = typeof choice === 'object' ? choice.name : undefined;
  const callable = tools.flatMap((tool, index) =>
    named === undefined || tool.name === named
      ? [{ name: tool.name, grammar: schemaGrammar(argumentsSchema(tool), `tools[${index}].function.parameters`) }]
      : [],
  );
  if (callable.length === 0) {
    throw errors.invalidParameter('tool_choice', "'tool_choice' names a function that is not among 'tools'.");
  }
  return { forced: choice !== 'auto', parallel: parallel && named === undefined, tools: callable };
}

/** Arguments are an object, whatever a careless schema leaves open. */
const argumentsSchema = ({ parameters }: ToolDefinition) =>
  parameters === undefined ? { type: 'object', properties: {} } : { type: 'object', ...parameters };

/** One of the names, with what ends it. */
export const nameGrammar = (tools: readonly CallableTool[], { nameEnd }: CallSyntax) =>
  `root ::= ${tools.map(({ name }) => literal(name + nameEnd)).join(' | ')}`;

/** After a call: what begins the next one, or the end. */
export const choiceGrammar = (next: string, end: string) =>
  end === '' ? `root ::= ${literal(next)}?` : `root ::= ${literal(next)} | ${literal(end)}`;

/** What stands for a call where text must keep to a format: as much of it as opens one. */
export const openingGrammar = (tools: readonly CallableTool[], { mark, open, nameEnd }: CallSyntax) =>
  mark === undefined
    ? `${literal(open)} (${tools.map(({ name }) => literal(name + nameEnd)).join(' | ')})`
    : literal(mark);
