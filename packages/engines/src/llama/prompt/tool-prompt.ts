import type { ChatMessage, ToolDefinition } from '@baobab/core/engine/engine.ts';
import type { TemplateMessage, TemplateTool, ToolSupport } from '../tools/call-probe.ts';
import { GENERIC_SYNTAX, shownId } from '../tools/call-syntax.ts';

export const usesTools = (message: ChatMessage) => message.role === 'tool' || (message.toolCalls?.length ?? 0) > 0;

export const nativeTool = (tool: ToolDefinition): TemplateTool => ({
  type: 'function',
  function: {
    name: tool.name,
    description: tool.description ?? '',
    parameters: tool.parameters ?? { type: 'object', properties: {} },
  },
});

/** Numbers calls in the order of the conversation, from 1, by their ids. */
export function numberCalls(messages: readonly ChatMessage[]): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  for (const { toolCalls = [], toolCallId } of messages) {
    for (const id of toolCallId === undefined ? toolCalls.map((call) => call.id) : [toolCallId]) {
      if (!numbers.has(id)) numbers.set(id, numbers.size + 1);
    }
  }
  return numbers;
}

export interface NativeForm extends Pick<ToolSupport, 'syntax' | 'argumentsAsText' | 'singleCalls'> {
  callNumbers: ReadonlyMap<string, number>;
}

/** For templates that support tools. */
export function nativeMessages(messages: readonly ChatMessage[], form: NativeForm): TemplateMessage[] {
  const { syntax, argumentsAsText, singleCalls, callNumbers } = form;
  const functionNames = new Map(messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id, name }) => [id, name])));
  const idOf = (id: string) => shownId(callNumbers.get(id) ?? 0);
  const shownArguments = (text: string) => {
    if (argumentsAsText) return text;
    return syntax.arguments.kind === 'tagged' ? withoutNulls(parsedArguments(text)) : parsedArguments(text);
  };
  const turns = singleCalls ? oneCallAtATime(messages) : messages;
  return turns.map((message) => {
    const { role, content, reasoning, toolCallId, toolCalls = [] } = message;
    const name = message.name ?? functionNames.get(toolCallId ?? '');
    const calls = toolCalls.map((call) => ({
      id: idOf(call.id),
      type: 'function' as const,
      function: { name: call.name, arguments: shownArguments(call.arguments) },
    }));
    return {
      role,
      content,
      ...(name === undefined ? {} : { name }),
      ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
      ...(toolCallId === undefined ? {} : { tool_call_id: idOf(toolCallId) }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    };
  });
}

/** Some templates take one call in a message: parallel calls become one after the other, each with its result. */
function oneCallAtATime(messages: readonly ChatMessage[]): ChatMessage[] {
  const moved = new Set<ChatMessage>();
  return messages.flatMap((message, index) => {
    if (moved.has(message)) return [];
    const { toolCalls = [] } = message;
    if (toolCalls.length < 2) return [message];
    const next = messages.findIndex(({ role }, at) => at > index && role !== 'tool');
    const results = messages.slice(index + 1, next === -1 ? undefined : next);
    return toolCalls.flatMap((call, at) => {
      const own = results.filter(({ toolCallId }) => toolCallId === call.id);
      for (const result of own) moved.add(result);
      return [{ ...message, content: at === 0 ? message.content : '', toolCalls: [call] }, ...own];
    });
  });
}

/** For templates without tools: definitions in the system message, calls and results as marked text. */
export function genericMessages(
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[] | undefined,
): TemplateMessage[] {
  const turns = messages.map(genericMessage);
  if (!tools || tools.length === 0) return turns;
  const instructions = toolInstructions(tools);
  const [first, ...rest] = turns;
  if (first?.role === 'system') return [{ ...first, content: `${first.content}\n\n${instructions}` }, ...rest];
  return [{ role: 'system', content: instructions }, ...turns];
}

function genericMessage(message: ChatMessage): TemplateMessage {
  if (message.role === 'tool') {
    return { role: 'user', content: `<tool_response>\n${message.content}\n</tool_response>` };
  }
  const calls = (message.toolCalls ?? []).map((call) =>
    genericCall(call.name, JSON.stringify(parsedArguments(call.arguments))),
  );
  return {
    role: message.role,
    content: [message.content, ...calls].filter((part) => part !== '').join('\n'),
    ...(message.reasoning === undefined ? {} : { reasoning_content: message.reasoning }),
  };
}

const genericCall = (name: string, json: string) => {
  const { open, arguments: form, close } = GENERIC_SYNTAX;
  return [open, name, form.nameEnd, form.middle, json, close].join('');
};

function toolInstructions(tools: readonly ToolDefinition[]): string {
  const definitions = tools.map((tool) => JSON.stringify(nativeTool(tool).function)).join('\n');
  return [
    'You can call these functions, each described by one line of JSON:',
    definitions,
    'When a function is needed to answer, reply with nothing but a call in this form:',
    genericCall('function name', '{"parameter": "value"}'),
    'Its result comes back inside <tool_response>. When no function is needed, answer in plain words.',
  ].join('\n');
}

/** Between tags null is the text `null`. Some templates refuse anything else. */
const withoutNulls = (input: unknown) =>
  typeof input === 'object' && input !== null && !Array.isArray(input)
    ? Object.fromEntries(Object.entries(input).map(([key, value]) => [key, value === null ? 'null' : value]))
    : input;

/** Most templates print arguments as JSON themselves. Text that is not JSON stays as it is. */
function parsedArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
