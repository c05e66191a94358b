/** Both sides of the chat benchmark: the library in its own process, and the service over HTTP. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import type { RunningServer } from '../../test/acceptance/start-server.ts';
import type { RawLlamaOrder, RawLlamaSetup, StreamFigures } from './raw-llama.ts';

export interface Run {
  prompts: readonly string[];
  maxTokens: number;
}

export interface Side {
  run(run: Run): Promise<StreamFigures>;
  close(): void;
}

export function figuresOf(streams: readonly Omit<Answer, 'text'>[], durationMs: number): StreamFigures {
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

export interface AskOptions {
  maxTokens: number;
  temperature?: number;
}

export interface Answer {
  text: string;
  firstTokenMs: number;
  tokens: number;
  promptTokens: number;
  cachedTokens: number;
}

export interface ServiceSide extends Side {
  ask(messages: readonly Message[], options: AskOptions): Promise<Answer>;
}

export function createService(
  { address, apiKey }: RunningServer,
  { model, connections }: { model: string; connections: number },
): ServiceSide {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });

  function ask(messages: readonly Message[], { maxTokens, temperature = 0.8 }: AskOptions): Promise<Answer> {
    const began = performance.now();
    const question = JSON.stringify({
      model,
      messages,
      temperature,
      top_p: 0.95,
      max_tokens: maxTokens,
      stream: true,
      stream_options: { include_usage: true },
    });
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const call = request(`${address}/v1/chat/completions`, { method: 'POST', agent, headers }, (answer) => {
        let firstTokenMs = 0;
        let body = '';
        answer.setEncoding('utf8');
        answer.on('data', (data: string) => {
          body += data;
          // Skips the first chunk, which has the role and empty content.
          if (firstTokenMs === 0 && /"content":"[^"]/.test(body)) firstTokenMs = performance.now() - began;
        });
        answer.on('end', () => {
          const usage = /"usage":(\{"prompt_tokens".*\})\}/.exec(body)?.[1];
          if (answer.statusCode !== 200 || usage === undefined || firstTokenMs === 0)
            return reject(new Error(`the server answered ${answer.statusCode} ${body}`));
          const used = JSON.parse(usage);
          const pieces = body.matchAll(/"content":("(?:[^"\\]|\\.)*")/g);
          resolve({
            text: [...pieces].map(([, piece = '""']) => JSON.parse(piece)).join(''),
            firstTokenMs,
            tokens: used.completion_tokens,
            promptTokens: used.prompt_tokens,
            cachedTokens: used.cache_read_tokens,
          });
        });
      });
      call.on('error', reject);
      call.end(question);
    });
  }

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
