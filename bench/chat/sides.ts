/** The sides of the chat benchmarks: the library in its own process, and servers over HTTP. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import type { RawLlamaOrder, RawLlamaSetup, StreamFigures } from './raw-llama.ts';

export interface Run {
  prompts: readonly string[];
  maxTokens: number;
}

export interface Side {
  run(run: Run): Promise<StreamFigures>;
  close(): void;
}

function figuresOf(streams: readonly Answer[], durationMs: number): StreamFigures {
  const tokens = streams.reduce((sum, each) => sum + each.tokens, 0);
  return {
    firstTokenMs: streams.map((each) => each.firstTokenMs),
    promptTokens: streams.map((each) => each.promptTokens),
    cachedTokens: streams.map((each) => each.cachedTokens),
    tokens,
    tokensPerSecond: tokens / (durationMs / 1000),
  };
}

export async function startLibrary(setup: RawLlamaSetup): Promise<Side & { pid: number }> {
  const child = fork(join(import.meta.dirname, 'raw-llama.ts'));
  child.send(setup);
  await once(child, 'message');
  return {
    pid: child.pid ?? 0,
    async run({ prompts, maxTokens }) {
      const inTemplate = prompts.map((prompt) => `<|user|>\n${prompt}</s>\n<|assistant|>\n`);
      child.send({ prompts: inTemplate, maxTokens } satisfies RawLlamaOrder);
      const [figures] = (await once(child, 'message')) as [StreamFigures];
      return figures;
    },
    close: () => child.kill(),
  };
}

export interface Message {
  role: 'user' | 'assistant';
  content: string;
}

export interface Answer {
  text: string;
  firstTokenMs: number;
  tokens: number;
  promptTokens: number;
  cachedTokens: number;
}

interface HttpSideOptions {
  address: string;
  apiKey?: string;
  model: string;
  connections: number;
  /** llama-server closes idle connections while the other side has its turn. */
  keepAlive?: boolean;
  /** Further fields of the body. */
  extra?: Readonly<Record<string, unknown>>;
}

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

export interface HttpSide extends Side {
  ask(messages: readonly Message[], options: { maxTokens: number; temperature?: number }): Promise<Answer>;
}

/** Streams of a server with the chat completions API. */
export function createHttpSide(options: HttpSideOptions): HttpSide {
  const { address, apiKey = 'none', model, connections, keepAlive = true, extra } = options;
  const agent = new Agent({ keepAlive, maxSockets: connections });
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };

  const ask: HttpSide['ask'] = (messages, { maxTokens, temperature = 0.8 }) => {
    const began = performance.now();
    const body = JSON.stringify({
      model,
      messages,
      temperature,
      top_p: 0.95,
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
      ...extra,
    });
    return new Promise((resolve, reject) => {
      const call = request(`${address}/v1/chat/completions`, { method: 'POST', agent, headers }, (response) => {
        const answer: Answer = { text: '', firstTokenMs: 0, tokens: 0, promptTokens: 0, cachedTokens: 0 };
        let rest = '';
        response.setEncoding('utf8').on('data', (data: string) => {
          const lines = (rest + data).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) if (line.startsWith('data: {')) read(answer, JSON.parse(line.slice(6)), began);
        });
        response.on('end', () => {
          if (answer.tokens > 0) resolve(answer);
          else reject(new Error(`the server answered ${response.statusCode} ${rest}`));
        });
      });
      call.on('error', reject);
      call.end(body);
    });
  };

  return {
    ask,
    async run({ prompts, maxTokens }) {
      const began = performance.now();
      const streams = await Promise.all(prompts.map((content) => ask([{ role: 'user', content }], { maxTokens })));
      return figuresOf(streams, performance.now() - began);
    },
    close: () => agent.destroy(),
  };
}

function read(answer: Answer, { choices = [], usage, timings }: Chunk, began: number): void {
  const content = choices[0]?.delta?.content;
  if (content) {
    answer.firstTokenMs ||= performance.now() - began;
    answer.text += content;
  }
  if (timings?.cache_n !== undefined) answer.cachedTokens = timings.cache_n;
  if (!usage) return;
  answer.tokens = usage.completion_tokens;
  answer.promptTokens = usage.prompt_tokens;
  answer.cachedTokens = usage.cache_read_tokens ?? usage.prompt_tokens_details?.cached_tokens ?? answer.cachedTokens;
}
