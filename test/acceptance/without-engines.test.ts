import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeUpstream, startFakeUpstream } from '../fixtures/fake-upstream.ts';
import { type RunningServer, startServer } from './start-server.ts';

const HIDE = pathToFileURL(join(import.meta.dirname, '../fixtures/without-engines.mjs')).href;
const APPLES = join(import.meta.dirname, '../fixtures/audio/apples.flac');
const CHAT = 'huggingfacetb/smollm2-135m-instruct';
const WHISPER = 'openai/whisper-tiny';

describe('a server without the package of engines', () => {
  let upstream: FakeUpstream;
  let server: RunningServer;
  let client: OpenAI;

  beforeAll(async () => {
    upstream = await startFakeUpstream('vllm');
    server = await startServer({
      env: {
        NODE_OPTIONS: `--import=${HIDE}`,
        BAOBAB_UPSTREAMS: JSON.stringify([CHAT, WHISPER].map((model) => ({ model, url: upstream.url, kind: 'vllm' }))),
      },
    });
    client = new OpenAI({ baseURL: `${server.address}/v1`, apiKey: server.apiKey, maxRetries: 0 });
  });

  afterAll(async () => {
    await server[Symbol.asyncDispose]();
    await upstream.close();
  });

  it('serves a model of the catalog that an upstream has', async () => {
    const answer = await client.chat.completions.create({
      model: CHAT,
      messages: [{ role: 'user', content: 'Hello' }],
    });
    expect(answer.choices[0]?.message.content).toBeTruthy();
  });

  it('says what to install when a local model is asked for', async () => {
    const asked = client.embeddings.create({ model: 'baobab/embed-multilingual', input: 'Hello' });
    await expect(asked).rejects.toMatchObject({
      status: 503,
      code: 'model_unavailable',
      message: expect.stringContaining('needs @baobab/engines, which is not installed'),
    });
    const model = await client.models.retrieve('baobab/embed-multilingual');
    expect(model).toMatchObject({ status: 'unavailable', status_reason: expect.stringContaining('@baobab/engines') });
  });

  it('refuses files that only the package can read', async () => {
    const refused = { status: 422, code: 'unsupported_parameter', message: expect.stringContaining('@baobab/engines') };
    const file = await toFile(await readFile(APPLES), 'apples.flac');
    await expect(client.audio.transcriptions.create({ model: WHISPER, file })).rejects.toMatchObject(refused);
    const pdf = { filename: 'a.pdf', file_data: `data:application/pdf;base64,${btoa('%PDF-1.4 none')}` };
    const content = [{ type: 'file' as const, file: pdf }];
    const asked = client.chat.completions.create({ model: CHAT, messages: [{ role: 'user', content }] });
    await expect(asked).rejects.toMatchObject(refused);
  });
});
