import type { ToolChoice, ToolDefinition } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { type FieldPath, fieldText } from '@baobab/core/errors/fields.ts';
import type { CompileBudget } from '../grammar/budget.ts';
import { schemaGrammar } from '../grammar/schema-grammar.ts';
import { planTaggedArguments, type TaggedArgumentsPlan } from './tagged-plan.ts';

/** What may be called in one answer, and how. Plain data: it is made outside the engine process. */
export interface CallPlan {
  /** The answer must begin with a call. Otherwise a call begins where the model writes the opening mark. */
  forced: boolean;
  /** Whether more than one call may follow. Undefined: the client has not said. */
  parallel: boolean | undefined;
  tools: readonly CallableTool[];
}

export interface CallableTool {
  name: string;
  /** GBNF of its arguments as JSON. */
  grammar: string;
  /** The same for arguments between tags. Undefined: tags cannot hold them. */
  tagged: TaggedArgumentsPlan | undefined;
}

export interface CallRequest {
  tools: readonly ToolDefinition[] | undefined;
  choice: ToolChoice | undefined;
  parallel: boolean | undefined;
  /** Budget of the whole request. */
  budget?: CompileBudget | undefined;
}

const TOOL_CHOICE: FieldPath = ['toolChoice'];

/** Undefined: this answer is text. */
export function planCalls({ tools = [], choice = 'auto', parallel, budget }: CallRequest): CallPlan | undefined {
  if (choice === 'none') return undefined;
  if (tools.length === 0) {
    if (choice === 'auto') return undefined;
    throw errors.invalidParameter(
      TOOL_CHOICE,
      fieldText`${TOOL_CHOICE} asks for a tool call, but ${['tools']} is empty.`,
    );
  }
  const named = typeof choice === 'object' ? choice.name : undefined;
  const callable = tools.flatMap((tool, index) => {
    if (named !== undefined && tool.name !== named) return [];
    const [schema, location] = [argumentsSchema(tool), ['tools', index, 'parameters']];
    const grammar = schemaGrammar(schema, location, budget);
    return [{ name: tool.name, grammar, tagged: planTaggedArguments(schema, location) }];
  });
  if (callable.length === 0) {
    throw errors.invalidParameter(
      TOOL_CHOICE,
      fieldText`${TOOL_CHOICE} names a function that is not among ${['tools']}.`,
    );
  }
  return { forced: choice !== 'auto', parallel: named === undefined ? parallel : false, tools: callable };
}

/** Arguments are an object, even if the schema does not say so. */
const argumentsSchema = ({ parameters }: ToolDefinition) =>
  parameters === undefined ? { type: 'object', properties: {} } : { type: 'object', ...parameters };
