import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MODELS_DIR } from '../../test/acceptance/start-server.ts';
import { freePort } from '../../test/fixtures/free-port.ts';

export interface Engine extends AsyncDisposable {
  address: string;
}

const GGUF = process.env.GGUF ?? join(MODELS_DIR, 'huggingfacetb/smollm2-135m-instruct/2026-11-16/model.gguf');
const CONTEXT = 2048;

/** llama-server, or a command that takes its flags. One thread, so that two of them have a core each. */
export async function startLlamaEngine(command: string, slots: number): Promise<Engine> {
  const [file = '', ...before] = command.split(' ');
  const port = await freePort();
  const flags = { model: GGUF, host: '127.0.0.1', port, threads: 1, parallel: slots, 'ctx-size': CONTEXT * slots };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const child = spawn(file, [...before, ...args], { stdio: 'ignore' });
  const exited = once(child, 'exit');
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const address = `http://127.0.0.1:${port}`;
  while (
    !(await fetch(`${address}/health`)
      .then(({ ok }) => ok)
      .catch(() => false))
  ) {
    if (child.exitCode !== null) throw new Error(`${command} ended with ${child.exitCode}`);
    await sleep(200);
  }
  return {
    address,
    async [Symbol.asyncDispose]() {
      process.removeListener('exit', kill);
      kill();
      await exited;
    },
  };
}

const TOKEN_CHARACTERS = 4;
const PROMPT_TOKENS_PER_MS = 4;

function commonLength(left: string, right: string): number {
  const longest = Math.min(left.length, right.length);
  let length = 0;
  while (length < longest && left.charCodeAt(length) === right.charCodeAt(length)) length += 1;
  return length;
}

/** A slot keeps its last prompt. A request takes the free slot with the longest common start, or the one used longest ago. */
export async function startSimulatedEngine(slots: number): Promise<Engine> {
  const cache = Array.from({ length: slots }, () => ({ text: '', usedAt: 0, isBusy: false }));
  const waiting: (() => void)[] = [];

  async function answer(prompt: string): Promise<{ prompt_tokens: number; cached: number }> {
    while (cache.every(({ isBusy }) => isBusy)) await new Promise<void>((wake) => waiting.push(wake));
    const free = cache.filter(({ isBusy }) => !isBusy);
    const common = (slot: (typeof cache)[number]) => commonLength(slot.text, prompt);
    const closest = free.reduce((best, slot) => (common(slot) > common(best) ? slot : best));
    const oldest = free.reduce((best, slot) => (slot.usedAt < best.usedAt ? slot : best));
    // As llama-server: a short match is not worth the loss of what the slot holds.
    const slot = common(closest) > prompt.length / 10 ? closest : oldest;
    slot.isBusy = true;
    const tokens = Math.ceil(prompt.length / TOKEN_CHARACTERS);
    const cached = Math.min(tokens - 1, Math.floor(common(slot) / TOKEN_CHARACTERS));
    await sleep((tokens - cached) / PROMPT_TOKENS_PER_MS);
    Object.assign(slot, { text: prompt, usedAt: performance.now(), isBusy: false });
    waiting.shift()?.();
    return { prompt_tokens: tokens, cached };
  }

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    response.setHeader('content-type', 'application/json');
    if (request.method !== 'POST') {
      response.end('{"object":"list","data":[]}');
      return;
    }
    const body = JSON.parse(Buffer.concat(chunks).toString()) as { messages: { role: string; content: string }[] };
    const text = body.messages.map(({ role, content }) => `${role}: ${content}`).join('\n');
    const { prompt_tokens, cached } = await answer(text);
    const usage = {
      prompt_tokens,
      completion_tokens: 3,
      total_tokens: prompt_tokens + 3,
      prompt_tokens_details: { cached_tokens: cached },
    };
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Yes, it is.' }, finish_reason: 'stop' }];
    response.end(
      JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', choices, usage }),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}
