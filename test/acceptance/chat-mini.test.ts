import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'baobab/chat-mini';
const VERSION = '2026-11-17';

const MAX_TOKENS = 7;
/**
 * Recorded with version 2026-11-17 of the model. The twelve builds of llama.cpp for x64 with AVX, up to AMX, agree on these texts,
 * although their probabilities differ in the second digit. Most longer texts differ between them, so none is recorded.
 */
const RECORDED = {
  1: 'In the heart of the forest,',
  7: 'The baobab tree stands tall',
  8: 'A long-dead tree, its',
  10: 'The baobab tree, a',
};

describe('the exclusive chat model', () => {
  let dataDir: string;
  let server: RunningServer;
  let client: OpenAI;
  const start = async () => {
    server = await startServer({ dataDir });
    client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
  };
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'baobab-chat-mini-'));
    await start();
  });
  afterAll(async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  });

  const poem = (seed: number, model = MODEL) => ({
    model,
    messages: [{ role: 'user' as const, content: 'Write a short poem about the baobab tree.' }],
    temperature: 0.8,
    seed,
    max_tokens: MAX_TOKENS,
  });
  const write = async (seed: number, model?: string) =>
    (await client.chat.completions.create(poem(seed, model))).choices[0]?.message.content;

  it('is listed with its version under the prefix of the service', async () => {
    const listed = (await client.models.list()).data.find(({ id }) => id === MODEL);
    expect(listed).toMatchObject({
      id: MODEL,
      owned_by: 'baobab',
      modality: 'chat',
      version: VERSION,
      versions: [{ version: VERSION, deprecated_at: null, retired_at: null }],
      license: 'Apache-2.0',
      deprecated_at: null,
      regions: ['local'],
    });
  });

  it('says which version answered', async () => {
    const { response } = await client.chat.completions.create({ ...poem(1), max_tokens: 1 }).withResponse();
    expect(response.headers.get('x-served-model')).toBe(`${MODEL}@${VERSION}`);
    expect(response.headers.get('service-deprecated')).toBeNull();
  });

  it.each(Object.entries(RECORDED))('writes the recorded text for seed %s, pinned or not', async (seed, text) => {
    expect(await write(Number(seed))).toBe(text);
    expect(await write(Number(seed), `${MODEL}@${VERSION}`)).toBe(text);
  });

  it('writes the same text for a seed alone, beside other requests and after a restart', async () => {
    const long = { ...poem(77), max_tokens: 32 };
    const answer = async () => (await client.chat.completions.create(long)).choices[0]?.message.content;
    const alone = await answer();
    const others = await Promise.all(
      ['Count to one thousand.', 'Tell a long story.', 'Explain rain.'].map(async (content) => {
        const stream = await client.chat.completions.create({
          model: MODEL,
          messages: [{ role: 'user', content }],
          max_tokens: 400,
          stream: true,
        });
        const chunks = stream[Symbol.asyncIterator]();
        // The first chunk has come, so it is being generated.
        await chunks.next();
        return stream;
      }),
    );
    expect(await answer()).toBe(alone);
    for (const stream of others) stream.controller.abort();
    await server.stop();
    await start();
    expect(await answer()).toBe(alone);
  });
});
