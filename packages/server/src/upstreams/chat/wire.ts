import type { ChatMessage, ChatRequest, ImageInput, ToolChoice, ToolDefinition } from '@baobab/core/engine/engine.ts';

/* Parts of requests in the form of OpenAI's API. */

export function wireMessage(message: ChatMessage, withThoughts: boolean): Record<string, unknown> {
  const calls = message.toolCalls?.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  return {
    role: message.role,
    // Some chat templates print an empty string as an empty answer before the calls.
    content: calls !== undefined && calls.length > 0 && message.content === '' ? null : wireContent(message),
    name: message.name,
    reasoning_content: withThoughts ? message.reasoning : undefined,
    tool_calls: calls,
    tool_call_id: message.toolCallId,
  };
}

function wireContent({ content, images = [] }: ChatMessage): unknown {
  if (images.length === 0) return content;
  const parts: object[] = [];
  let from = 0;
  const addText = (to: number): void => {
    if (to > from) parts.push({ type: 'text', text: content.slice(from, to) });
    from = Math.max(from, to);
  };
  for (const image of images) {
    addText(image.at);
    parts.push(wireImage(image));
  }
  addText(content.length);
  return parts;
}

export const wireImage = ({ url, detail }: ImageInput): object => ({ type: 'image_url', image_url: { url, detail } });

export function wireTool({ name, description, parameters, extra }: ToolDefinition): Record<string, unknown> {
  return {
    type: 'function',
    function: { ...extra, name, description, parameters: parameters ?? { type: 'object', properties: {} } },
  };
}

export function wireToolChoice(choice: ToolChoice | undefined): unknown {
  return typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice;
}

type Reasoning = NonNullable<ChatRequest['reasoningEffort']>;

/** For servers that refuse the levels that they do not know. */
export function commonReasoning(effort: Reasoning): object {
  const levels = { minimal: 'low', xhigh: 'high', max: 'high' } as Record<string, string>;
  return { reasoning_effort: levels[effort] ?? effort };
}

/** For servers that run the model's template and take its switches. */
export const templateReasoning = (effort: Reasoning): object =>
  effort === 'none' ? { chat_template_kwargs: { enable_thinking: false } } : commonReasoning(effort);
