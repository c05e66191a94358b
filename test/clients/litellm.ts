import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.ts';
import type { Client } from './client.ts';
import { python } from './install.ts';
import { startService, streamedText } from './service.ts';

/** It refuses short ones. */
const LITELLM_MASTER_KEY = 'sk-0123456789abcdef0123456789abcdef0123456789abcdef';
const MESSAGES = [{ role: 'user', content: 'Hello' }];

interface Answer {
  choices: { message: { content: string } }[];
  data: { embedding: number[] }[];
  results: { index: number; relevance_score: number }[];
}

export const litellm: Client = {
  name: "LiteLLM's proxy",
  install: python('litellm', 'litellm[proxy]'),
  asserts: 'chat, a stream, embeddings and rerank through it, and its error for a prompt that is too long',
  async run({ installation, directory, address, apiKey, model, embeddingModel, rerankModel, smallModel }) {
    const served = (name: string, of: string, base = `${address}/v1`) => ({
      model_name: name,
      litellm_params: { model: of, api_base: base, api_key: apiKey },
    });
    const models = [
      served('chat', `openai/${model}`),
      served('small', `openai/${smallModel.name}`),
      served('embedding', `openai/${embeddingModel}`),
      served('rerank', `jina_ai/${rerankModel}`, `${address}/v1/rerank`),
    ];
    const settings = join(directory, 'config.json');
    await writeFile(settings, JSON.stringify({ model_list: models, litellm_settings: { num_retries: 0 } }));
    const port = await freePort();
    const args = ['--config', settings, '--host', '127.0.0.1', '--port', String(port)] as const;
    await using proxy = await startService([join(installation, 'litellm/bin/litellm'), ...args], {
      address: `http://127.0.0.1:${port}`,
      health: '/health/liveliness',
      cwd: directory,
      env: { LITELLM_MASTER_KEY, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    });
    proxy.headers.authorization = `Bearer ${LITELLM_MASTER_KEY}`;
    const post = async (path: string, body: object) => (await (await proxy.post(path, body)).json()) as Answer;

    const chat = await post('/v1/chat/completions', { model: 'chat', messages: MESSAGES });
    assert.equal(chat.choices[0]?.message.content, 'OK, hello.');
    const stream = await proxy.post('/v1/chat/completions', { model: 'chat', messages: MESSAGES, stream: true });
    assert.equal(streamedText(await stream.text()), 'OK, hello.');
    const { data } = await post('/v1/embeddings', { model: 'embedding', input: ['Habari ya dunia', 'Hello world'] });
    assert.deepEqual(
      data.map(({ embedding }) => embedding.length),
      [384, 384],
    );
    const documents = ['It rains.', 'Kenya exports tea.'];
    const { results } = await post('/v1/rerank', { model: 'rerank', query: 'Who exports tea?', documents });
    assert.equal(results[0]?.index, 1);
    const long = [{ role: 'user', content: 'hello world '.repeat(20_000) }];
    await assert.rejects(
      post('/v1/chat/completions', { model: 'small', messages: long }),
      /ContextWindowExceededError/,
    );
  },
};
