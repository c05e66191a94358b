/** One side of a comparison over HTTP: streams of a server with the chat completions API. */
import { Agent, request } from 'node:http';
import type { StreamFigures } from './raw-llama.ts';
import { type Answer, figuresOf, type Run, type Side } from './sides.ts';

export interface HttpStreamsOptions {
  address: string;
  apiKey?: string;
  model: string;
  connections: number;
  /** Further fields of the body. */
  extra?: Readonly<Record<string, unknown>>;
}

type Stream = Omit<Answer, 'text'>;

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  usage?: {
    completion_tokens: number;
    prompt_tokens: number;
    cache_read_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number };
  } | null;
  timings?: { cache_n?: number };
}

export function createHttpStreams(options: HttpStreamsOptions): Side {
  const { address, apiKey = 'none', model, connections, extra } = options;
  // llama-server closes idle connections while the other side has its turn.
  const agent = new Agent({ keepAlive: false, maxSockets: connections });
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };

  function ask(content: string, maxTokens: number): Promise<Stream> {
    const began = performance.now();
    const body = JSON.stringify({
      model,
      messages: [{ role: 'user', content }],
      temperature: 0.8,
      top_p: 0.95,
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
      ...extra,
    });
    return new Promise((resolve, reject) => {
      const call = request(`${address}/v1/chat/completions`, { method: 'POST', agent, headers }, (answer) => {
        const stream: Stream = { firstTokenMs: 0, tokens: 0, promptTokens: 0, cachedTokens: 0 };
        let rest = '';
        answer.setEncoding('utf8').on('data', (data: string) => {
          const lines = (rest + data).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) if (line.startsWith('data: {')) read(stream, JSON.parse(line.slice(6)), began);
        });
        answer.on('end', () => {
          if (stream.tokens > 0) resolve(stream);
          else reject(new Error(`the server answered ${answer.statusCode} ${rest}`));
        });
      });
      call.on('error', reject);
      call.end(body);
    });
  }

  return {
    async run({ prompts, maxTokens }: Run): Promise<StreamFigures> {
      const began = performance.now();
      const streams = await Promise.all(prompts.map((prompt) => ask(prompt, maxTokens)));
      return figuresOf(streams, performance.now() - began);
    },
    close: () => agent.destroy(),
  };
}

function read(stream: Stream, { choices = [], usage, timings }: Chunk, began: number): void {
  if (choices[0]?.delta?.content) stream.firstTokenMs ||= performance.now() - began;
  if (timings?.cache_n !== undefined) stream.cachedTokens = timings.cache_n;
  if (!usage) return;
  stream.tokens = usage.completion_tokens;
  stream.promptTokens = usage.prompt_tokens;
  stream.cachedTokens = usage.cache_read_tokens ?? usage.prompt_tokens_details?.cached_tokens ?? stream.cachedTokens;
}
