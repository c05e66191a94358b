import type { ChatRequest, ToolChoice, ToolDefinition } from '@baobab/core/engine/engine.ts';
import { errors } from '@baobab/core/errors/errors.ts';
import { toolChoiceOf } from '../../generation/request.ts';
import type { CreateResponseBody, ToolBody } from './schema.ts';

const NAME = /^[a-zA-Z0-9_.:-]{1,128}$/;

/** A custom tool takes free text. Models know functions only, so it becomes a function with this one argument. */
const CUSTOM_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string', description: 'The whole input of the tool, as plain text' } },
  required: ['input'],
  additionalProperties: false,
};

export const customArguments = (input: string): string => JSON.stringify({ input });

/** The free text of a call to a custom tool. A model that did not write the one argument gets its text through as it is. */
export function customInput(argumentsText: string): string {
  try {
    const parsed: unknown = JSON.parse(argumentsText);
    if (typeof parsed === 'object' && parsed !== null && 'input' in parsed && typeof parsed.input === 'string') {
      return parsed.input;
    }
  } catch {
    // Not JSON.
  }
  return argumentsText;
}

function customDescription({ description, format }: ToolBody): string {
  const grammar =
    format?.type === 'grammar' && format.definition
      ? `The input must follow this ${format.syntax ?? ''} grammar:\n${format.definition}`
      : undefined;
  return [description, grammar].filter((part) => part).join('\n\n');
}

function definitionOf(tool: ToolBody, index: number): ToolDefinition | undefined {
  if (tool.type !== 'function' && tool.type !== 'custom') return undefined;
  const param = `tools[${index}].name`;
  if (!tool.name) throw errors.missingParameter(param);
  if (!NAME.test(tool.name)) {
    throw errors.invalidParameter(param, `'${param}' must be at most 128 letters, digits, _, -, . and :.`);
  }
  if (tool.type === 'custom') {
    return { name: tool.name, description: customDescription(tool), parameters: CUSTOM_PARAMETERS };
  }
  return {
    name: tool.name,
    description: tool.description ?? undefined,
    parameters: tool.parameters ?? undefined,
    extra: typeof tool.strict === 'boolean' ? { strict: tool.strict } : undefined,
  };
}

/** Names of tools whose calls are items of type `custom_tool_call`. */
export const customToolsOf = ({ tools }: CreateResponseBody): ReadonlySet<string> =>
  new Set((tools ?? []).flatMap(({ type, name }) => (type === 'custom' && name ? [name] : [])));

/** Hosted tools, such as `web_search`, are left out: programs offer them without asking whether the server has them. */
export function toolsOf({
  tools,
  tool_choice: choice,
  parallel_tool_calls: parallel,
}: CreateResponseBody): Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  const sent = tools ?? [];
  const known = sent.map(definitionOf).filter((tool) => tool !== undefined);
  const allowed = choice && typeof choice === 'object' && choice.type === 'allowed_tools' ? choice : undefined;
  const names = allowed && new Set(allowed.tools?.map(({ name }) => name));
  const offered = names ? known.filter(({ name }) => names.has(name)) : known;
  if (offered.length === 0) return {};
  return {
    tools: offered,
    toolChoice: toolChoiceOf(wantedTool(allowed ? (allowed.mode ?? 'auto') : choice), offered),
    parallelToolCalls: parallel ?? undefined,
  };
}

function wantedTool(choice: CreateResponseBody['tool_choice']): ToolChoice | undefined {
  if (choice === null || choice === undefined || typeof choice === 'string') return choice ?? undefined;
  return choice.type === 'function' || choice.type === 'custom' ? { name: choice.name ?? '' } : undefined;
}
