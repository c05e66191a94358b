import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import type { RerankRequest } from '@baobab/core/engine/engine.ts';
import { pulled } from '@baobab/core/engine/testing/pulled-generation.ts';
import type { LlamaEmbeddingContext, Token } from 'node-llama-cpp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { selfTestModel, selfTestParts } from './backend/test-model.ts';
import { type LlamaOptions, llama } from './driver.ts';
import { ggufParts } from './gguf-header.ts';
import { load, takeOverMarks } from './load.ts';
import { rankingModel } from './testing/ranking-model.ts';

const CONTEXT_LENGTH = 256;

const context = {
  requestId: '',
  accountId: '',
  keyId: '',
  priority: 'interactive' as const,
  signal: new AbortController().signal,
};

const specOf = (directory: string, engine: LoadSpec<LlamaOptions>['engine']): LoadSpec<LlamaOptions> => ({
  slug: 'test/model',
  version: '2026-01-01',
  engine,
  directory,
  contextLength: CONTEXT_LENGTH,
  dimensions: null,
  maxOutputTokens: null,
  threads: 1,
  parallelSequences: 1,
  backend: 'cpu',
});

/** What a model writes first. */
async function answerOf(files: Readonly<Record<string, Buffer>>, model: string): Promise<string> {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-load-'));
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(directory.path, name), bytes);
  await using loaded = await load(specOf(directory.path, { driver: 'llama', task: 'chat', options: { model } }));
  const request = { prompt: { text: 'water' }, temperature: 0, maxTokens: 8, logprobs: { top: 1 } };
  let written = '';
  for await (const event of pulled(loaded.chat, request, context)) {
    if (event.type === 'text-delta') written += JSON.stringify(event.logprobs);
  }
  return written;
}

describe('a model in parts', () => {
  const [first, ...others] = ggufParts('model-00001-of-00003.gguf');
  const names = [first, ...others];
  const parts = selfTestParts(names.length);
  const files = Object.fromEntries(names.map((name, at) => [name, parts[at] as Buffer]));

  it('answers as the whole one', async () => {
    const whole = await answerOf({ 'model.gguf': selfTestModel() }, 'model.gguf');
    expect(whole).toContain('logprob');
    expect(await answerOf(files, first)).toBe(whole);
  });

  it('is not loaded without one of them', async () => {
    const { [others[0] as string]: _, ...rest } = files;
    await expect(answerOf(rest, first)).rejects.toMatchObject({ code: 'model_unavailable' });
  });

  it('takes the memory of all', async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-parts-'));
    for (const [name, bytes] of Object.entries(files)) await writeFile(join(directory.path, name), bytes);
    const bytes = await llama.local.videoBytes(
      { driver: 'llama', task: 'chat', options: { model: first } },
      {
        directory: directory.path,
        layout: { processes: 1, threads: 1, parallelSequences: 1, slots: 1 },
        contextLength: 0,
        videoShare: 1,
      },
    );
    expect(bytes).toBeGreaterThan(parts.reduce((sum, part) => sum + part.length, 0));
  });
});

it('leaves the marks of texts to the caller, so that token ids are embedded as they are', () => {
  const [start, word] = [1, 22_172] as Token[] as [Token, Token];
  const prepared = (ids: Token[]): Token[] => {
    context._prepareInput(ids);
    return ids;
  };
  const context = { _prepareInput: (ids: Token[]) => void ids.unshift(start) };
  expect(prepared([word])).toEqual([start, word]);
  const withMarks = takeOverMarks(context as unknown as LlamaEmbeddingContext);
  expect(prepared([word])).toEqual([word]);
  expect(withMarks([word])).toEqual([start, word]);
});

describe('a query and a document that are too long together', () => {
  /** A token each byte. The model adds one before the query, one behind it and one at the end. */
  const query = 'water,north,south,';
  const document = Array.from({ length: 100 }, (_, index) => `place${index},`).join('');
  const ADDED = 3;
  let directory: Awaited<ReturnType<typeof mkdtempDisposable>>;
  let loaded: Awaited<ReturnType<typeof load>>;

  const rank = async (texts: { query: string; document: string }, options: Partial<RerankRequest> = {}) => {
    if (!loaded.rerank) throw new Error('the model does not rank');
    const answer = await loaded.rerank.rerank({ query: texts.query, documents: [texts.document], ...options }, context);
    return { score: answer.scores[0], tokens: answer.tokens, truncated: answer.truncated };
  };

  beforeAll(async () => {
    directory = await mkdtempDisposable(join(tmpdir(), 'baobab-load-'));
    await writeFile(join(directory.path, 'model.gguf'), rankingModel());
    loaded = await load(
      specOf(directory.path, { driver: 'llama', task: 'cross-encoder', options: { model: 'model.gguf' } }),
    );
  });

  afterAll(async () => {
    await loaded?.[Symbol.asyncDispose]();
    await directory.remove();
  });

  it('are refused', async () => {
    await expect(rank({ query, document })).rejects.toMatchObject({ code: 'context_length_exceeded' });
  });

  it.each([
    { side: 'end' as const, kept: (text: string, tokens: number) => text.slice(0, tokens) },
    { side: 'start' as const, kept: (text: string, tokens: number) => text.slice(-tokens) },
  ])('are cut at the $side on request', async ({ side, kept }) => {
    const cut = await rank({ query, document }, { truncation: { side } });
    const room = CONTEXT_LENGTH - ADDED - query.length;
    expect(cut).toEqual({ ...(await rank({ query, document: kept(document, room) })), truncated: 1 });
    expect(cut.tokens).toBe(CONTEXT_LENGTH);

    const shorter = await rank({ query, document }, { truncation: { side, maxTokens: 64 } });
    expect(shorter).toEqual({
      ...(await rank({ query, document: kept(document, 64 - ADDED - query.length) })),
      truncated: 1,
    });
    expect(shorter.score).not.toBe(cut.score);
  });

  it('share the room when both are long', async () => {
    const both = await rank({ query: document, document }, { truncation: { side: 'end' } });
    const room = CONTEXT_LENGTH - ADDED;
    const half = Math.ceil(room / 2);
    const pair = { query: document.slice(0, room - half), document: document.slice(0, half) };
    expect(both).toEqual({ ...(await rank(pair)), truncated: 1 });
  });

  it('fit once the document has its own limit', async () => {
    const cut = await rank({ query, document }, { maxDocumentTokens: 20 });
    expect(cut).toEqual({ ...(await rank({ query, document: document.slice(0, 20) })), truncated: 1 });
  });
});
