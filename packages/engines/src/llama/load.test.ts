import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LoadSpec } from '@baobab/core/engine/driver.ts';
import { pulled } from '@baobab/core/engine/testing/pulled-generation.ts';
import type { LlamaEmbeddingContext, Token } from 'node-llama-cpp';
import { describe, expect, it } from 'vitest';
import { selfTestModel, selfTestParts } from './backend/test-model.ts';
import { type LlamaOptions, llama } from './driver.ts';
import { ggufParts } from './gguf-header.ts';
import { load, takeOverMarks } from './load.ts';

const CONTEXT_LENGTH = 256;

/** What a model writes first. */
async function answerOf(files: Readonly<Record<string, Buffer>>, model: string): Promise<string> {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'baobab-load-'));
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(directory.path, name), bytes);
  const spec: LoadSpec<LlamaOptions> = {
    slug: 'test/parts',
    version: '2026-01-01',
    engine: { driver: 'llama', task: 'chat', options: { model } },
    directory: directory.path,
    contextLength: CONTEXT_LENGTH,
    dimensions: null,
    maxOutputTokens: null,
    threads: 1,
    parallelSequences: 1,
    backend: 'cpu',
  };
  await using loaded = await load(spec);
  const context = {
    requestId: '',
    accountId: '',
    keyId: '',
    priority: 'interactive' as const,
    signal: new AbortController().signal,
  };
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
