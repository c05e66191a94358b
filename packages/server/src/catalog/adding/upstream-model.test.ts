import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type LocalServer, startLocalServer } from './testing/local-server.ts';
import { draftUpstreamModel } from './upstream-model.ts';

const open: LocalServer[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

async function serve(answers: Record<string, unknown>): Promise<string> {
  const server = await startLocalServer(answers);
  open.push(server);
  return `${server.address}/v1`;
}

describe('an upstream', () => {
  const listed = (...data: object[]) => ({ '/v1/models': { object: 'list', data } });

  it.each([
    ['vllm', listed({ id: 'Qwen/Qwen3-4B', owned_by: 'vllm', max_model_len: 32_768 }), 'qwen/qwen3-4b', 32_768],
    [
      'llama-server',
      { ...listed({ id: 'tiny', owned_by: 'llamacpp', meta: { n_ctx_train: 2048 } }), '/props': {} },
      'local/tiny',
      2048,
    ],
    [
      'ollama',
      {
        ...listed({ id: 'llama3.2:1b', owned_by: 'library' }),
        '/api/version': { version: '0.9' },
        '/api/show': { capabilities: ['completion'], model_info: { 'llama.context_length': 131_072 } },
        '/api/ps': { models: [{ name: 'llama3.2:1b', context_length: 16_384 }] },
      },
      'local/llama3.2-1b',
      16_384,
    ],
  ])('%s is recognised', async (kind, answers, slug, contextLength) => {
    const url = await serve(answers);
    const { entry, upstream } = await draftUpstreamModel(url, {}, {});
    expect(entry).toMatchObject({ slug, modality: 'chat', context_length: contextLength });
    expect(upstream).toMatchObject({ model: slug, url, kind });
  });

  it.each([
    ['llama-server', listed({ id: 'm', owned_by: 'llamacpp', architecture: { input_modalities: ['text', 'image'] } })],
    ['ollama', { ...listed({ id: 'm' }), '/api/version': {}, '/api/show': { capabilities: ['completion', 'vision'] } }],
    ['baobab', listed({ id: 'a/m', modality: 'chat', context_length: 8, capabilities: { vision: true } })],
  ])('%s tells that its model takes images', async (kind, answers) => {
    const { entry, upstream } = await draftUpstreamModel(await serve(answers), {}, {});
    expect([upstream?.kind, entry.capabilities]).toEqual([kind, { vision: true }]);
  });

  it.each([
    ['its own setting', 'num_ctx                        8192\ntop_k 40', 8192, 0],
    ["Ollama's default, which is said", undefined, 4096, 1],
  ])('of an Ollama model that is not loaded has the context of %s', async (_what, parameters, contextLength, notes) => {
    const url = await serve({
      ...listed({ id: 'llama3.2:1b', owned_by: 'library' }),
      '/api/version': { version: '0.17.4' },
      '/api/show': { capabilities: ['completion'], model_info: { 'llama.context_length': 131_072 }, parameters },
      '/api/ps': { models: [] },
    });
    const draft = await draftUpstreamModel(url, {}, {});
    expect(draft.entry.context_length).toBe(contextLength);
    expect(draft.notes).toHaveLength(notes);
  });

  it('of a chat model that makes no embeddings is not added for them', async () => {
    const answers = {
      ...listed({ id: 'smollm2:latest', owned_by: 'library' }),
      '/api/version': { version: '0.34.4' },
      '/api/show': { capabilities: ['completion'], model_info: { 'llama.embedding_length': 576 } },
    };
    const options = { name: 'smollm2', modality: 'embedding' as const };
    await expect(draftUpstreamModel(await serve(answers), options, {})).rejects.toThrow(
      /runs 'smollm2:latest' as a chat model and makes no embeddings/,
    );
    // Older versions do.
    const able = { ...answers, '/v1/embeddings': { data: [{ embedding: [0, 0, 0] }] } };
    const { entry } = await draftUpstreamModel(await serve(able), options, {});
    expect(entry).toMatchObject({ modality: 'embedding', dimensions: 3 });
  });

  it('tei is recognised, with the length of its vectors', async () => {
    const url = await serve({
      '/info': { model_id: 'BAAI/bge-m3', model_type: { embedding: { pooling: 'cls' } }, max_input_length: 8192 },
      '/v1/embeddings': { data: [{ embedding: [0, 0, 0] }] },
    });
    const { entry, upstream } = await draftUpstreamModel(url, {}, {});
    expect(entry).toMatchObject({ slug: 'baai/bge-m3', modality: 'embedding', dimensions: 3, context_length: 8192 });
    expect(upstream).toMatchObject({ kind: 'tei', name: 'BAAI/bge-m3' });
  });

  it('with several models wants a name, and lists them', async () => {
    const url = await serve(listed({ id: 'a' }, { id: 'b' }, { id: 'c', status: 'unavailable' }));
    await expect(draftUpstreamModel(url, {}, {})).rejects.toThrow(/add --name with one of: a, b$/);
    expect((await draftUpstreamModel(url, { name: 'b' }, {})).upstream).toMatchObject({
      name: 'b',
      kind: 'openai',
    });
  });

  it('of Ollama may be named without the tag `latest`', async () => {
    const url = await serve(listed({ id: 'qwen3:8b' }, { id: 'qwen3:latest' }));
    const draft = (name: string) => draftUpstreamModel(url, { name }, {});
    expect((await draft('qwen3')).upstream?.name).toBe('qwen3:latest');
    expect((await draft('qwen3:8b')).upstream?.name).toBe('qwen3:8b');
    await expect(draft('qwen')).rejects.toThrow("has no model 'qwen'; it has: qwen3:8b, qwen3:latest");
  });

  it('that cannot be reached is named', async () => {
    await expect(draftUpstreamModel('http://127.0.0.1:9/v1', {}, {})).rejects.toThrow('http://127.0.0.1:9/v1');
  });

  it('gives one message for a closed port, another service, a redirect and too long an answer', async () => {
    const elsewhere = await serve(listed({ id: 'm' }));
    const moved = createServer((_request, response) =>
      response.writeHead(302, { location: `${elsewhere}/models` }).end(),
    );
    const long = createServer((_request, response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, ' ')));
      };
      response.on('drain', write);
      write();
    });
    const urls = ['http://127.0.0.1:9/v1', await serve({}), await serve({ '/v1/models': Buffer.from('SSH-2.0') })];
    for (const server of [moved, long]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      open.push({ address: '', requests: [], close: () => server.closeAllConnections() ?? server.close() });
      urls.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
    }
    for (const url of urls) {
      const error = await draftUpstreamModel(url, {}, {}).catch((thrown: unknown) => thrown);
      expect((error as Error).message).toBe(`${url} cannot be reached, or its /models lists no models`);
      expect((error as Error).cause).toBeInstanceOf(Error);
    }
  });

  it.each([
    'http://169.254.169.254/v1',
    'http://0xa9fea9fe/v1',
    'http://[fe80::1]:8000/v1',
    'http://[::ffff:169.254.169.254]/v1',
    'http://[fd00:ec2::254]/v1',
    'https://100.100.100.200/v1',
  ])('is not asked at %s', async (url) => {
    await expect(draftUpstreamModel(url, {}, {})).rejects.toThrow('is a link-local address or a metadata service');
  });

  it('llama-server has the context of one request, and a slug without the path of its file', async () => {
    const url = await serve({
      ...listed({ id: '/srv/models/Tiny Chat.gguf', owned_by: 'llamacpp', meta: { n_ctx_train: 8192, n_embd: 576 } }),
      '/props': { default_generation_settings: { n_ctx: 2048 } },
      '/v1/embeddings': 501,
    });
    const { entry, upstream } = await draftUpstreamModel(url, {}, {});
    expect(entry).toMatchObject({ slug: 'local/tiny-chat', modality: 'chat', context_length: 2048 });
    expect(entry.description).toBe('Tiny Chat, served by llama-server');
    expect(upstream).toMatchObject({ kind: 'llama-server', name: '/srv/models/Tiny Chat.gguf' });
  });

  it('that answers with vectors is an embedding model, whatever its name', async () => {
    const url = await serve({
      ...listed({ id: 'acme/secret', owned_by: 'vllm', max_model_len: 512 }),
      '/v1/embeddings': { data: [{ embedding: [0, 0, 0, 0] }] },
    });
    expect((await draftUpstreamModel(url, {}, {})).entry).toMatchObject({
      modality: 'embedding',
      dimensions: 4,
    });
  });

  it('that still loads its model is not taken for an empty one', async () => {
    const url = await serve({ '/v1/models': 503 });
    await expect(draftUpstreamModel(url, {}, {})).rejects.toThrow('is not ready (503)');
  });
});
