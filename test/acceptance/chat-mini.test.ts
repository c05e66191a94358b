import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunningServer, startServer } from './start-server.ts';

const MODEL = 'baobab/chat-mini';
const RECOMMENDED = '2026-11-18';
const FIRST = '2026-11-17';

const MAX_TOKENS = 7;
const POEM = 'Write a short poem about the baobab tree.';
/**
 * Texts that every build of llama.cpp should write, although their probabilities differ in the second digit. Most longer texts differ
 * between builds, so none is recorded. For 2026-11-17, the twelve builds for x64 with AVX, up to AMX, were seen to agree. Those of
 * 2026-11-18 are recorded with one build; each of their tokens has a probability of at least 0.96.
 */
const RECORDED: readonly [version: string, seed: number, prompt: string, text: string][] = [
  [FIRST, 1, POEM, 'In the heart of the forest,'],
  [FIRST, 7, POEM, 'The baobab tree stands tall'],
  [FIRST, 8, POEM, 'A long-dead tree, its'],
  [FIRST, 10, POEM, 'The baobab tree, a'],
  [RECOMMENDED, 1, 'Translate into English: Maji ni uhai.', 'Water is life.'],
  [RECOMMENDED, 7, 'Translate into English: Maji ni uhai.', 'Water is life.'],
  [RECOMMENDED, 1, 'Which language is this?\n\nHabari ya asubuhi, rafiki yangu.', 'Swahili.'],
];

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

  const request = (seed: number, content = POEM, model = MODEL) => ({
    model,
    messages: [{ role: 'user' as const, content }],
    temperature: 0.8,
    seed,
    max_tokens: MAX_TOKENS,
  });
  const write = async (...asked: Parameters<typeof request>) =>
    (await client.chat.completions.create(request(...asked))).choices[0]?.message.content;

  it('is listed with its versions under the prefix of the service', async () => {
    const listed = (await client.models.list()).data.find(({ id }) => id === MODEL);
    expect(listed).toMatchObject({
      id: MODEL,
      owned_by: 'baobab',
      modality: 'chat',
      version: RECOMMENDED,
      versions: [
        { version: RECOMMENDED, deprecated_at: null, retired_at: null },
        { version: FIRST, deprecated_at: null, retired_at: null },
      ],
      license: 'Apache-2.0',
      deprecated_at: null,
      regions: ['local'],
    });
  });

  it('says which version answered', async () => {
    const { response } = await client.chat.completions.create({ ...request(1), max_tokens: 1 }).withResponse();
    expect(response.headers.get('x-served-model')).toBe(`${MODEL}@${RECOMMENDED}`);
    expect(response.headers.get('service-deprecated')).toBeNull();
  });

  it.each(RECORDED)('writes the recorded text of %s for seed %s', async (version, seed, prompt, text) => {
    expect(await write(seed, prompt, `${MODEL}@${version}`)).toBe(text);
    if (version === RECOMMENDED) expect(await write(seed, prompt)).toBe(text);
  });

  it('writes the same text for a seed alone, beside other requests and after a restart', async () => {
    const long = { ...request(77), max_tokens: 32 };
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
