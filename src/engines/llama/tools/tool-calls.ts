import { errors } from '../../../errors/errors.ts';
import { type FieldPath, fieldText } from '../../../errors/fields.ts';
import type { ToolChoice, ToolDefinition } from '../../engine.ts';
import { schemaGrammar } from '../grammar/schema-grammar.ts';

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
  /** Of its arguments. */
  schema: unknown;
  /** Where a client wrote it. */
  location: string;
  /** GBNF of its arguments as JSON. */
  grammar: string;
}

export interface CallRequest {
  tools: readonly ToolDefinition[] | undefined;
  choice: ToolChoice | undefined;
  parallel: boolean;
}

const TOOL_CHOICE: FieldPath = ['toolChoice'];

/** Undefined: this answer is text. */
export function planCalls({ tools = [], choice = 'auto', parallel }: CallRequest): CallPlan | undefined {
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
    const [schema, location] = [argumentsSchema(tool), `tools[${index}].function.parameters`];
    return [{ name: tool.name, schema, location, grammar: schemaGrammar(schema, location) }];
  });
  if (callable.length === 0) {
    throw errors.invalidParameter(
      TOOL_CHOICE,
      fieldText`${TOOL_CHOICE} names a function that is not among ${['tools']}.`,
    );
  }
  return { forced: choice !== 'auto', parallel: parallel && named === undefined, tools: callable };
}

/** Arguments are an object, whatever a careless schema leaves open. */
const argumentsSchema = ({ parameters }: ToolDefinition) =>
  parameters === undefined ? { type: 'object', properties: {} } : { type: 'object', ...parameters };
