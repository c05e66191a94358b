import type { ChatMessage, ToolDefinition } from '../engine.ts';

/** The way a model writes a call, whether its own template says so or our instructions do. */
export const CALL_OPEN = '<tool_call>';
export const CALL_CLOSE = '</tool_call>';

/** Messages and tools under the names that chat templates know. */
export interface TemplateMessage {
  role: string;
  content: string;
  name?: string;
  tool_call_id?: string;
  tool_calls?: readonly { id: string; type: 'function'; function: { name: string; arguments: unknown } }[];
}

export interface TemplateTool {
  type: 'function';
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

export const usesTools = (message: ChatMessage) => message.role === 'tool' || (message.toolCalls?.length ?? 0) > 0;

export const nativeTool = (tool: ToolDefinition): TemplateTool => ({
  type: 'function',
  function: {
    name: tool.name,
    description: tool.description ?? '',
    parameters: tool.parameters ?? { type: 'object', properties: {} },
  },
});

export const nativeMessage = (message: ChatMessage): TemplateMessage => ({
  role: message.role,
  content: message.content,
  ...(message.name === undefined ? {} : { name: message.name }),
  ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
  ...(message.toolCalls && message.toolCalls.length > 0
    ? {
        tool_calls: message.toolCalls.map((call) => ({
          id: call.id,
          type: 'function' as const,
          function: { name: call.name, arguments: parsedArguments(call.arguments) },
        })),
      }
    : {}),
});

/** Whether a template shows tools, calls in the form above, and their results. Otherwise the generic form is used for all three. */
export function rendersTools(
  render: (messages: readonly TemplateMessage[], tools?: readonly TemplateTool[]) => string,
): boolean {
  const tool = nativeTool({ name: 'probe_tool' });
  const question: TemplateMessage = { role: 'user', content: 'x' };
  const call = { id: 'probecall', type: 'function' as const, function: { name: 'probe_call', arguments: { key: 1 } } };
  const answered = render(
    [
      question,
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', content: 'probe_result', tool_call_id: 'probecall', name: 'probe_call' },
    ],
    [tool],
  );
  return (
    render([question], [tool]).includes('probe_tool') &&
    answered.includes(CALL_OPEN) &&
    answered.includes('probe_call') &&
    answered.includes('probe_result')
  );
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
  const calls = (message.toolCalls ?? []).map((call) => {
    const body = JSON.stringify({ name: call.name, arguments: parsedArguments(call.arguments) });
    return `${CALL_OPEN}\n${body}\n${CALL_CLOSE}`;
  });
  return { role: message.role, content: [message.content, ...calls].filter((part) => part !== '').join('\n') };
}

function toolInstructions(tools: readonly ToolDefinition[]): string {
  const definitions = tools.map((tool) => JSON.stringify(nativeTool(tool).function)).join('\n');
  return [
    'You can call these functions, each described by one line of JSON:',
    definitions,
    'When a function is needed to answer, reply with nothing but a call in this form:',
    `${CALL_OPEN}\n{"name": "function name", "arguments": {"parameter": "value"}}\n${CALL_CLOSE}`,
    'Its result comes back inside <tool_response>. When no function is needed, answer in plain words.',
  ].join('\n');
}

/** Templates print arguments as JSON themselves; text that is no JSON is passed on as it is. */
function parsedArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
