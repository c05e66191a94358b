import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { drivers } from '../../engines/drivers.ts';
import { ggufFile } from '../../engines/llama/testing/gguf-file.ts';
import { draftHubModel } from './hub-model.ts';
import { draftLocalModel } from './local-model.ts';
import { parseLocation } from './reference.ts';
import { draftUpstreamModel } from './upstream-model.ts';

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baobab-add-'));
  open.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Answers by path; everything else is a 404. */
async function serve(answers: Record<string, unknown>): Promise<string> {
  const server: Server = createServer((request, response) => {
    const answer = answers[request.url ?? ''];
    if (answer === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a location', () => {
  it.each([
    ['hf:Qwen/Qwen3-4B-GGUF:Q4_K_M', { kind: 'hub', repo: 'Qwen/Qwen3-4B-GGUF', revision: 'main', file: 'Q4_K_M' }],
    ['hf:a/b@v1', { kind: 'hub', repo: 'a/b', revision: 'v1', file: undefined }],
    ['./my.gguf', { kind: 'path', path: '/work/my.gguf' }],
    ['http://host:8000/v1/', { kind: 'upstream', url: 'http://host:8000/v1' }],
    ['http://host:8000', { kind: 'upstream', url: 'http://host:8000/v1' }],
  ])('%s is understood', (text, expected) => {
    expect(parseLocation(text, '/work')).toEqual(expected);
  });

  it('of a wrong form is refused with an example', () => {
    expect(() => parseLocation('hf:only-a-name', '/')).toThrow('hf:Qwen/Qwen3-4B-GGUF:Q4_K_M');
  });
});

describe('a GGUF file', () => {
  it('gives its context length and task', () => {
    const path = join(folder(), 'My Model.gguf');
    writeFileSync(path, ggufFile({ 'general.architecture': 'llama', 'llama.context_length': 4096 }));
    expect(draftLocalModel(path, {}, drivers).entry).toMatchObject({
      slug: 'local/my-model',
      modality: 'chat',
      context_length: 4096,
      source: { kind: 'file', path },
    });
  });

  it('of an encoder becomes an embedding model with its dimensions', () => {
    const path = join(folder(), 'enc.gguf');
    const fields = { 'general.architecture': 'bert', 'bert.context_length': 512, 'bert.embedding_length': 384 };
    writeFileSync(path, ggufFile(fields));
    expect(draftLocalModel(path, {}, drivers).entry).toMatchObject({ modality: 'embedding', dimensions: 384 });
  });

  it('that is none is refused', () => {
    const path = join(folder(), 'bad.gguf');
    writeFileSync(path, 'random bytes');
    expect(() => draftLocalModel(path, {}, drivers)).toThrow('has no GGUF metadata');
  });
});

describe('a folder with an ONNX model', () => {
  it('is read from its config.json', () => {
    const path = folder();
    mkdirSync(join(path, 'onnx'));
    writeFileSync(join(path, 'onnx/model.onnx'), 'weights');
    writeFileSync(join(path, 'tokenizer.json'), '{}');
    const config = { architectures: ['BertForSequenceClassification'], hidden_size: 384, max_position_embeddings: 512 };
    writeFileSync(join(path, 'config.json'), JSON.stringify(config));
    const { entry } = draftLocalModel(path, { slug: 'acme/ranker' }, drivers);
    expect(entry).toMatchObject({ slug: 'acme/ranker', modality: 'rerank', context_length: 512 });
  });

  it('without a tokenizer is refused', () => {
    const path = folder();
    writeFileSync(join(path, 'model.onnx'), 'weights');
    expect(() => draftLocalModel(path, {}, drivers)).toThrow('has no tokenizer.json');
  });
});

describe('a model of the hub', () => {
  const repo = 'Qwen/Qwen3-4B-GGUF';
  const sibling = (rfilename: string) => ({ rfilename, size: 10, lfs: { sha256: 'a'.repeat(64), size: 10 } });
  const answer = {
    sha: 'c'.repeat(40),
    cardData: { license: 'apache-2.0' },
    gguf: { architecture: 'qwen3', context_length: 40_960 },
    siblings: [sibling('README.md'), sibling('Qwen3-4B-Q4_K_M.gguf'), sibling('Qwen3-4B-Q8_0.gguf')],
  };
  const draft = async (text: string) => {
    const endpoint = await serve({ [`/api/models/${repo}/revision/main?blobs=true`]: answer });
    const location = parseLocation(text, '/') as Extract<ReturnType<typeof parseLocation>, { kind: 'hub' }>;
    return draftHubModel(location, {}, { endpoint, fetch });
  };

  it('gets the file of the quantization, pinned to a commit, with its hash', async () => {
    const { entry } = await draft(`hf:${repo}:Q8_0`);
    expect(entry).toMatchObject({
      slug: 'qwen/qwen3-4b',
      modality: 'chat',
      license: 'apache-2.0',
      context_length: 40_960,
    });
    expect(entry.source).toEqual({
      kind: 'hf',
      repo,
      revision: 'c'.repeat(40),
      files: [{ as: 'Qwen3-4B-Q8_0.gguf', path: 'Qwen3-4B-Q8_0.gguf', sha256: 'a'.repeat(64), bytes: 10 }],
    });
  });

  it('that has no such file is refused with those it has', async () => {
    await expect(draft(`hf:${repo}:Q2_K`)).rejects.toThrow(/no whole file 'Q2_K'.*Qwen3-4B-Q4_K_M\.gguf/);
  });
});

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
      },
      'local/llama3.2-1b',
      131_072,
    ],
  ])('%s is recognised', async (kind, answers, slug, contextLength) => {
    const url = `${await serve(answers)}/v1`;
    const { entry, upstream } = await draftUpstreamModel(url, {}, { fetch });
    expect(entry).toMatchObject({ slug, modality: 'chat', context_length: contextLength });
    expect(upstream).toMatchObject({ model: slug, url, kind });
  });

  it('tei is recognised, with the length of its vectors', async () => {
    const address = await serve({
      '/info': { model_id: 'BAAI/bge-m3', model_type: { embedding: { pooling: 'cls' } }, max_input_length: 8192 },
      '/v1/embeddings': { data: [{ embedding: [0, 0, 0] }] },
    });
    const { entry, upstream } = await draftUpstreamModel(`${address}/v1`, {}, { fetch });
    expect(entry).toMatchObject({ slug: 'baai/bge-m3', modality: 'embedding', dimensions: 3, context_length: 8192 });
    expect(upstream).toMatchObject({ kind: 'tei', name: 'BAAI/bge-m3' });
  });

  it('with several models wants a name, and lists them', async () => {
    const url = `${await serve(listed({ id: 'a' }, { id: 'b' }))}/v1`;
    await expect(draftUpstreamModel(url, {}, { fetch })).rejects.toThrow('add --name with one of: a, b');
    expect((await draftUpstreamModel(url, { name: 'b' }, { fetch })).upstream).toMatchObject({
      name: 'b',
      kind: 'openai',
    });
  });

  it('that cannot be reached is named', async () => {
    await expect(draftUpstreamModel('http://127.0.0.1:9/v1', {}, { fetch })).rejects.toThrow('http://127.0.0.1:9/v1');
  });
});
