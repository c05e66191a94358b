import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from './testing/run-command.ts';
import { tryCommand } from './try.ts';

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const word = (content: string) => event({ choices: [{ delta: { content } }] });
const MODELS = {
  data: [
    { id: 'acme/embed', modality: 'embedding' },
    { id: 'acme/chat', modality: 'chat' },
  ],
};

let server: Server;
let address: string;
const asked: { model?: string }[] = [];

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers.authorization !== 'Bearer right') {
    response.writeHead(401).end(JSON.stringify({ error: { message: 'This key is not known.' } }));
  } else if (request.url === '/v1/models') {
    response.end(JSON.stringify(MODELS));
  } else {
    const body: { model: string } = JSON.parse(await text(request));
    asked.push(body);
    response.write(word('Nairobi') + word(', '));
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

  it('says what is missing: a question, a key, the right one, a server', async () => {
    await expect(ask([])).rejects.toThrow('what to ask is missing');
    await expect(ask(['Hi'], {})).rejects.toThrow("'baobab keys create <name>' prints a key");
    await expect(ask(['Hi'], { BAOBAB_API_KEY: 'wrong' })).rejects.toThrow('This key is not known.');
    await expect(ask(['Hi', '--address', 'http://127.0.0.1:1'])).rejects.toThrow(
      /no server answers at http.*: .+ --address/,
    );
  });
});
