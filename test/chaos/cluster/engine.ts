import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Moment, Moments } from './moments.ts';

/** One call that a replica made, as the engine saw it. */
export interface EngineCall {
  account: string;
  /** Which replica made it, from 0 on. */
  replica: number;
  /** Which line of which batch it is, or which background response; undefined for other requests. */
  job: string | undefined;
  /** When the client sent it. It was admitted between then and `startMs`. */
  sentMs: number;
  startMs: number;
  /** When its answer ended, or its connection. */
  endMs: number | undefined;
  promptTokens: number;
  /** Tokens that were written. */
  completionTokens: number;
}

export interface Engine {
  readonly port: number;
  readonly calls: EngineCall[];
  close(): Promise<void>;
}

interface Body {
  input?: string | string[];
  messages?: { content: string }[];
  stream?: boolean;
  max_tokens?: number;
}

/** As many as Baobab bills when the connection breaks before the engine has said how many: see docs/engines.md. */
const countTokens = (text: string): number => Math.ceil(Buffer.byteLength(text) / 4) + 4;

export interface EngineOptions {
  /** A chat writes a word in this time. */
  wordMs: number;
  /** A file. */
  log: string;
  moments: Moments;
}

function momentOf({ account, job }: EngineCall, { isStream, isLast }: { isStream: boolean; isLast: boolean }): Moment {
  if (job === undefined) return isStream ? 'stream' : 'call';
  if (account === 'background') return 'background';
  return isLast ? 'batch-end' : 'batch';
}

const FIRST_WORD_MS = 20;
const valueIn = (text: string, name: string): string | undefined => new RegExp(`\\b${name}=(\\S+)`).exec(text)?.[1];

/**
 * A scripted OpenAI server. Requests name their account in the prompt. A chat answer has `max_tokens` words and differs each time, so
 * that two runs of one request can be told apart. Each call becomes a line of the log when it has ended.
 */
export async function startEngine({ wordMs, log, moments }: EngineOptions): Promise<Engine> {
  const file = createWriteStream(log);
  const calls: EngineCall[] = [];
  let runs = 0;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
    const text = body.messages === undefined ? [body.input].flat().join(' ') : (body.messages.at(-1)?.content ?? '');
    const call: EngineCall = {
      account: valueIn(text, 'account') ?? 'unknown',
      replica: Number(/replica-(\d+)/.exec(request.url ?? '')?.[1] ?? 1) - 1,
      job: valueIn(text, 'job'),
      sentMs: Number(valueIn(text, 'sent') ?? 0),
      startMs: performance.now(),
      endMs: undefined,
      promptTokens: countTokens(text),
      completionTokens: 0,
    };
    calls.push(call);
    moments.happened(momentOf(call, { isStream: body.stream === true, isLast: text.includes(' last') }), call.replica);
    const ended = () => {
      call.endMs ??= performance.now();
    };
    response.once('close', () => {
      ended();
      file.write(`${JSON.stringify(call)}\n`);
    });
    await pause(FIRST_WORD_MS);
    await (body.messages === undefined ? embed(call, response, ended) : chat(body, call, response, ended));
  }

  async function embed(call: EngineCall, response: ServerResponse, ended: () => void): Promise<void> {
    const embedding = [runs++ / 1000, 0.5, 0.25, 1];
    ended();
    sendJson(response, {
      object: 'list',
      model: 'm',
      data: [{ object: 'embedding', index: 0, embedding }],
      usage: { prompt_tokens: call.promptTokens, total_tokens: call.promptTokens },
    });
  }

  async function chat(body: Body, call: EngineCall, response: ServerResponse, ended: () => void): Promise<void> {
    const run = runs++;
    const count = body.max_tokens ?? 8;
    const word = (index: number) => ` w${run}-${index}`;
    const usage = () => ({
      prompt_tokens: call.promptTokens,
      completion_tokens: call.completionTokens,
      total_tokens: call.promptTokens + call.completionTokens,
    });
    const head = { id: `chatcmpl-${run}`, created: 1_760_000_000, model: 'm' };
    if (body.stream !== true) {
      await pause(count * wordMs);
      call.completionTokens = count;
      const content = Array.from({ length: count }, (_, index) => word(index)).join('');
      ended();
      const message = { role: 'assistant', content };
      const choices = [{ index: 0, message, finish_reason: 'stop' }];
      sendJson(response, { ...head, object: 'chat.completion', choices, usage: usage() });
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (rest: object) =>
      response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...rest })}\n\n`);
    for (let index = 0; index < count && !response.destroyed; index += 1) {
      await pause(wordMs);
      call.completionTokens += 1;
      send({ choices: [{ index: 0, delta: { role: 'assistant', content: word(index) }, finish_reason: null }] });
    }
    send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
    send({ choices: [], usage: usage() });
    ended();
    response.end('data: [DONE]\n\n');
  }

  const server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()));
  server.keepAliveTimeout = 120_000;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    calls,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
      file.end();
    },
  };
}

function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
