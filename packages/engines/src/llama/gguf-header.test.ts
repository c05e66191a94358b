import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ggufParts, readGgufHeader } from './gguf-header.ts';
import { ggufFile } from './testing/gguf-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'gguf-'));
afterAll(() => rmSync(directory, { recursive: true }));

function put(bytes: Buffer): string {
  const path = join(directory, 'model.gguf');
  writeFileSync(path, bytes);
  return path;
}

describe('the header of a GGUF file', () => {
  it('has the architecture and its numbers, also after a long vocabulary', () => {
    const vocabulary = Array.from({ length: 50_000 }, (_, index) => `token ${index}`);
    const path = put(
      ggufFile({
        'general.architecture': 'llama',
        'tokenizer.ggml.tokens': vocabulary,
        'llama.rope.freq_base': 1.5,
        'general.name': 'a name',
        'llama.context_length': 2048,
        'llama.embedding_length': 576,
      }),
    );
    expect(readGgufHeader(path)).toEqual({ architecture: 'llama', contextLength: 2048, embeddingLength: 576 });
  });

  it('ignores numbers of another architecture', () => {
    const path = put(ggufFile({ 'general.architecture': 'qwen2', 'llama.context_length': 2048 }));
    expect(readGgufHeader(path)).toEqual({
      architecture: 'qwen2',
      contextLength: undefined,
      embeddingLength: undefined,
    });
  });

  it('is undefined for other files', () => {
    expect(readGgufHeader(join(directory, 'none'))).toBeUndefined();
    expect(readGgufHeader(put(Buffer.from('not a model')))).toBeUndefined();
    expect(readGgufHeader(put(Buffer.alloc(0)))).toBeUndefined();
    expect(readGgufHeader(put(Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(60, 0xff)])))).toBeUndefined();
    const cut = put(ggufFile({ 'general.architecture': 'llama', 'llama.context_length': 2048 }));
    truncateSync(cut, 40);
    expect(readGgufHeader(cut)).toBeUndefined();
  });
});

describe('the files of a GGUF model', () => {
  it('are one file, as a rule', () => {
    expect(ggufParts('Qwen3-4B-Q4_K_M.gguf')).toEqual(['Qwen3-4B-Q4_K_M.gguf']);
    expect(ggufParts('a-00001-of-2.gguf')).toEqual(['a-00001-of-2.gguf']);
  });

  it('are all parts, whichever of them is named', () => {
    const parts = ['q4/large-00001-of-00003.gguf', 'q4/large-00002-of-00003.gguf', 'q4/large-00003-of-00003.gguf'];
    expect(ggufParts('q4/large-00001-of-00003.gguf')).toEqual(parts);
    expect(ggufParts('q4/large-00003-of-00003.gguf')).toEqual(parts);
    expect(ggufParts('one-00001-of-00001.gguf')).toEqual(['one-00001-of-00001.gguf']);
  });
});
