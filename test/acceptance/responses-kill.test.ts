import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { type FakeUpstream, silence, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'qwen/qwen2.5-0.5b-instruct';
const ROUNDS = 3;

let upstream: FakeUpstream;
let dataDir: string;
let server: RunningServer;
let openai: OpenAI;

async function start(): Promise<void> {
  server = await startServer({ dataDir });
  openai = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
}

beforeAll(async () => {
  upstream = await startFakeUpstream('vllm');
  dataDir = await mkdtemp(join(tmpdir(), 'baobab-responses-kill-'));
  const upstreams = [{ model: MODEL, url: upstream.url, kind: 'vllm' }];
  await writeFile(join(dataDir, 'baobab.yaml'), stringify({ upstreams }));
  await start();
});
afterAll(async () => {
  await server.stop();
  await upstream.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function ended(id: string) {
  for (;;) {
    const response = await openai.responses.retrieve(id);
    if (response.status !== 'queued' && response.status !== 'in_progress') return response;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

it('finishes background responses after kill -9', async () => {
  upstream.script.push(silence);
  const before = upstream.requests.length;
  const { id } = await openai.responses.create({ model: MODEL, input: 'Hi', background: true });
  await upstream.until(() => upstream.requests.length > before);
  await server.kill();
  await start();
  expect((await ended(id)).output_text).toBe('Hello from the other side.');
});

it('has every response that a client saw the end of, whole, after kill -9 at any moment', async () => {
  const seen: string[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    let killed: Promise<void> | undefined;
    const work = Array.from({ length: 4 }, async () => {
      let previous: string | undefined;
      while (killed === undefined) {
        const stream = await openai.responses.create({
          model: MODEL,
          input: 'Hi',
          stream: true,
          ...(previous !== undefined && { previous_response_id: previous }),
        });
        for await (const event of stream) {
          if (event.type !== 'response.completed') continue;
          previous = event.response.id;
          seen.push(previous);
          if (seen.length % 25 === 0) killed ??= server.kill();
        }
      }
    });
    await Promise.allSettled(work);
    await killed;
    await start();
    for (const id of seen) {
      const response = await openai.responses.retrieve(id);
      expect(response).toMatchObject({ id, status: 'completed', output_text: 'Hello from the other side.' });
    }
  }
  expect(seen.length).toBeGreaterThanOrEqual(ROUNDS * 20);
});
