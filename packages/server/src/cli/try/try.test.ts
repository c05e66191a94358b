import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from '../testing/run-command.ts';
import { streamAnswer } from './answer.ts';
import { tryCommand } from './try.ts';

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const word = (content: string) => event({ choices: [{ delta: { content } }] });
const PRICES = {
  prompt_per_million: 2,
  completion_per_million: 4,
  cache_read_per_million: null,
  audio_per_minute: null,
};
const MODELS = {
  data: [
    { id: 'acme/embed', modality: 'embedding' },
    { id: 'acme/chat', modality: 'chat', status: 'cold' },
    { id: 'acme/priced', modality: 'chat', status: 'ready', aliases: ['gpt'], pricing: PRICES },
  ],
};

let server: Server;
let address: string;
const asked: { model?: string; messages?: object[] }[] = [];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers.authorization !== 'Bearer right') {
    response.writeHead(401).end(JSON.stringify({ error: { message: 'This key is not known.' } }));
  } else if (request.url === '/v1/models') {
    response.end(JSON.stringify(MODELS));
  } else {
    const body: { model: string } = JSON.parse(await text(request));
    asked.push(body);
    response.write(word('Nairobi') + word(', '));
    if (body.model === 'acme/endless') return;
    if (body.model === 'acme/broken') response.end(event({ error: { message: 'The engine has ended.' } }));
    else
      response.end(
        `${word('of course.')}${event({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } })}data: [DONE]\n\n`,
      );
  }
}

beforeAll(async () => {
  server = createServer((...call) => void answer(...call)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

const ask = (args: string[], env: Record<string, string> = { BAOBAB_API_KEY: 'right' }) =>
  runCommand(tryCommand, { args: ['--address', address, ...args], dataDir: '/nonexistent', env });

describe('try', () => {
  it('writes the answer of the first chat model, and what it took', async () => {
    const { printed, warned } = await ask(['What', 'is the capital?']);
    expect(printed).toBe('Nairobi, of course.');
    expect(warned).toMatch(/^acme\/chat, \d+\.\d s, 7 tokens read and 3 written$/);
    expect(asked.at(-1)).toMatchObject({ model: 'acme/chat', messages: [{ content: 'What is the capital?' }] });
  });

  it('takes a model, and says what went wrong in it', async () => {
    await expect(ask(['Hi', '--model', 'acme/broken'])).rejects.toThrow('The engine has ended.');
  });

  it('says what it cost, and takes an alias and a question from a pipe', async () => {
    const { printed, warned } = await runCommand(tryCommand, {
      args: ['--address', address, '--model', 'gpt'],
      dataDir: '/nonexistent',
      env: { BAOBAB_API_KEY: 'right' },
      stdin: Readable.from(['Where is\n', 'Nairobi?\n']),
    });
    expect(printed).toBe('Nairobi, of course.');
    expect(warned).toMatch(/^gpt, .+ s, 7 tokens read and 3 written, \$0\.000026$/);
    expect(asked.at(-1)).toMatchObject({ model: 'gpt', messages: [{ content: 'Where is\nNairobi?' }] });
  });

  it('returns an answer that is stopped as far as it came', async () => {
    const stop = new AbortController();
    const access = { address, key: 'right' };
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    const { signal } = stop;
    const { text, summary } = await streamAnswer({
      ...{ access, model: { id: 'acme/endless' }, messages, signal },
      onText: () => stop.abort(),
    });
    expect(text).toMatch(/^Nairobi/);
    expect(summary).toMatch(/^acme\/endless, .+ s, stopped$/);
  });

  it('says what is missing: a question, a key, the right one, a server', async () => {
    await expect(ask([])).rejects.toThrow('what to ask is missing');
    await expect(ask(['Hi'], {})).rejects.toThrow("'baobab keys create <name>' prints a key");
    await expect(ask(['Hi'], { BAOBAB_API_KEY: 'wrong' })).rejects.toThrow('This key is not known.');
    await expect(ask(['Hi', '--address', 'http://127.0.0.1:1'])).rejects.toThrow(
      /no server answers at http.*: .+ --address/,
    );
  });
});

describe('try in a terminal', () => {
  const PROMPT = '>>> ';

  /** Types the next line whenever the prompt appears, and then Ctrl-D. */
  async function converse(...typed: string[]): Promise<string> {
    const [input, output] = [new PassThrough(), new PassThrough()];
    let screen = '';
    let prompts = 0;
    output.on('data', (chunk: Buffer) => {
      screen += chunk.toString();
      for (; screen.split(PROMPT).length - 1 > prompts; prompts += 1) {
        const line = typed.shift();
        setImmediate(() => input.write(line === undefined ? '\u0004' : line));
      }
    });
    const { printed } = await runCommand(tryCommand, {
      args: ['--address', address],
      dataDir: '/nonexistent',
      env: { BAOBAB_API_KEY: 'right' },
      terminal: { input, output },
    });
    return `${screen}${printed}`;
  }

  it('chats: remembers what was said, until /clear', async () => {
    const seen = await converse('Hello\r', 'And now?\r', '/clear\r', 'Again\r');
    expect(seen).toContain('acme/chat answers.');
    expect(seen).toContain('Nairobi, of course.');
    expect(seen).toMatch(/acme\/chat, .+ s, 7 tokens read and 3 written/);
    expect(asked.slice(-3).map(({ messages }) => messages?.length)).toEqual([1, 3, 1]);
  });

  it('takes a paste as one message', async () => {
    await converse('one\rtwo\r');
    expect(asked.at(-1)).toMatchObject({ messages: [{ content: 'one\ntwo' }] });
  });

  it('shows the models, takes another one, and goes on after a mistake', async () => {
    const seen = await converse('/model\r', '/model acme/pricey\r', '/model acme/priced\r', 'Hi\r', '/bye\r');
    expect(seen).toContain('* acme/chat (cold)');
    expect(seen).toContain("there is no chat model 'acme/pricey' for this key; did you mean 'acme/priced'?");
    expect(asked.at(-1)).toMatchObject({ model: 'acme/priced' });
  });
});
