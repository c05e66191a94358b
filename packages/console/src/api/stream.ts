import { address, type Call, call, failureOf, unsafeHeaders } from './client.ts';

/** Reads the data of server-sent events from a response. */
async function* eventData(response: Response): AsyncGenerator<string> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trim();
  }
}

export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
}

export interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens?: number } | null;
}

interface Chunk {
  error?: { message?: string };
  usage?: ChatUsage | null;
  choices?: {
    finish_reason?: string | null;
    delta?: {
      content?: string | null;
      tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
  }[];
}

export interface ChatAnswer {
  text: string;
  toolCalls: ToolCall[];
  finish?: string;
  usage?: ChatUsage;
}

/** Streams a chat completion and calls `onChange` with the answer so far. */
export async function streamChat(
  body: object,
  { signal, query }: Pick<Call, 'query'> & { signal: AbortSignal },
  onChange: (answer: ChatAnswer) => void,
): Promise<void> {
  const response = await fetch(address('/v1/chat/completions', query), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...unsafeHeaders() },
    credentials: 'same-origin',
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok) {
    // Ends the session if the server says so.
    if (response.status === 401) void call('/v1/sessions/current').catch(() => {});
    throw await failureOf(response);
  }
  const answer: ChatAnswer = { text: '', toolCalls: [] };
  for await (const data of eventData(response)) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new Error(chunk.error.message ?? 'the stream ended with an error');
    const choice = chunk.choices?.[0];
    answer.text += choice?.delta?.content ?? '';
    for (const part of choice?.delta?.tool_calls ?? []) {
      const known = answer.toolCalls[part.index] ?? { id: '', name: '', arguments: '' };
      answer.toolCalls[part.index] = {
        id: part.id ?? known.id,
        name: known.name + (part.function?.name ?? ''),
        arguments: known.arguments + (part.function?.arguments ?? ''),
      };
    }
    if (choice?.finish_reason) answer.finish = choice.finish_reason;
    if (chunk.usage) answer.usage = chunk.usage;
    onChange({ ...answer, toolCalls: [...answer.toolCalls] });
  }
}
