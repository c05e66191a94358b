import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../fixtures/free-port.ts';
import type { Client } from './client.ts';
import { python } from './install.ts';
import { prepare } from './recipe.ts';
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
  asserts:
    'chat, a stream, embeddings and rerank through it with the settings of launch, and its error for a long prompt',
  async run(context) {
    const { directory, address, smallModel } = context;
    const port = await freePort();
    const start = (command: string) =>
      `export LITELLM_MASTER_KEY=${LITELLM_MASTER_KEY}\nexec ${command} --host 127.0.0.1 --port ${port}`;
    const { script, env } = await prepare('litellm', context, { home: directory, directory }, start);
    const litellm_params = { model: `openai/${smallModel.name}`, api_base: `${address}/v1` };
    const small = { model_name: 'small', litellm_params: { ...litellm_params, api_key: context.apiKey } };
    const settings = 'litellm_settings: { num_retries: 0 }';
    await appendFile(join(directory, 'config.yaml'), `\n  - ${JSON.stringify(small)}\n${settings}\n`);
    await using proxy = await startService(['sh', '-e', '-c', script], {
      address: `http://127.0.0.1:${port}`,
      health: '/health/liveliness',
      cwd: directory,
      env: { ...env, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    });
    proxy.headers.authorization = `Bearer ${LITELLM_MASTER_KEY}`;
    const post = async (path: string, body: object) => (await (await proxy.post(path, body)).json()) as Answer;

    const chat = await post('/v1/chat/completions', { model: 'chat', messages: MESSAGES });
    assert.equal(chat.choices[0]?.message.content, 'OK, hello.');
    const stream = await proxy.post('/v1/chat/completions', { model: 'chat', messages: MESSAGES, stream: true });
    assert.equal(streamedText(await stream.text()), 'OK, hello.');
    const { data } = await post('/v1/embeddings', { model: 'embed', input: ['Habari ya dunia', 'Hello world'] });
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
