import type { ChatAnswer } from '../../../api/stream.ts';

export type Side = 'a' | 'b';

export interface Answer extends ChatAnswer {
  model: string;
  firstMs?: number;
  totalMs?: number;
  error?: string;
  stopped?: boolean;
}

export interface Turn {
  id: number;
  /** What the person said. */
  text?: string;
  /** Results of tools, by call id, for the side whose answer called them. */
  results?: { side: Side; values: Record<string, string> };
  answers: Partial<Record<Side, Answer>>;
}

export interface ChatSettings {
  system: string;
  temperature: string;
  maxTokens: string;
  seed: string;
  format: 'text' | 'json_object' | 'json_schema';
  schema: string;
  tools: string;
}

export const initialSettings: ChatSettings = {
  system: '',
  temperature: '',
  maxTokens: '',
  seed: '',
  format: 'text',
  schema:
    '{\n  "type": "object",\n  "properties": {\n    "name": { "type": "string" }\n  },\n  "required": ["name"]\n}',
  tools: '',
};

export const TOOLS_EXAMPLE = JSON.stringify(
  [
    {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'Weather in a city',
        parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      },
    },
  ],
  null,
  2,
);

/** The error of a text that should be JSON, or undefined. */
function jsonError(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export function settingsError(settings: ChatSettings): { tools?: string; schema?: string } {
  const tools = settings.tools.trim() === '' ? undefined : jsonError(settings.tools);
  const schema = settings.format === 'json_schema' ? jsonError(settings.schema) : undefined;
  return { ...(tools === undefined ? {} : { tools }), ...(schema === undefined ? {} : { schema }) };
}

interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | null;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** The conversation as one side has seen it. Answers that failed are left out with what led to them. */
export function messagesOf(turns: Turn[], side: Side, system: string): Message[] {
  const messages: Message[] = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  for (const { text, results, answers } of turns) {
    if (text !== undefined) messages.push({ role: 'user', content: text });
    if (results?.side === side) {
      for (const [id, value] of Object.entries(results.values)) {
        messages.push({ role: 'tool', tool_call_id: id, content: value });
      }
    }
    const answer = answers[side];
    if (!answer || (answer.text === '' && answer.toolCalls.length === 0)) continue;
    messages.push({
      role: 'assistant',
      content: answer.text === '' ? null : answer.text,
      ...(answer.toolCalls.length === 0
        ? {}
        : {
            tool_calls: answer.toolCalls.map(({ id, name, arguments: args }) => ({
              id,
              type: 'function' as const,
              function: { name, arguments: args },
            })),
          }),
    });
  }
  return messages;
}

/** The turns of the last request that was sent: without its answers. */
export const lastAsked = (turns: Turn[]): Turn[] =>
  turns.map((turn, index) => (index === turns.length - 1 ? { ...turn, answers: {} } : turn));

export function requestBody(model: string, turns: Turn[], side: Side, settings: ChatSettings): object {
  const number = (name: string, text: string) => (text.trim() === '' ? {} : { [name]: Number(text) });
  const format =
    settings.format === 'text'
      ? {}
      : settings.format === 'json_object'
        ? { response_format: { type: 'json_object' } }
        : {
            response_format: {
              type: 'json_schema',
              json_schema: { name: 'answer', strict: true, schema: JSON.parse(settings.schema) as unknown },
            },
          };
  return {
    model,
    messages: messagesOf(turns, side, settings.system),
    ...number('temperature', settings.temperature),
    ...number('max_tokens', settings.maxTokens),
    ...number('seed', settings.seed),
    ...format,
    ...(settings.tools.trim() === '' ? {} : { tools: JSON.parse(settings.tools) as unknown }),
  };
}
