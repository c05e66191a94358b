import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { text, unsigned32, unsigned64 } from './gguf-encoding.ts';
import { checkGguf, ggufParts, readGgufHeader } from './gguf-header.ts';
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
    expect(readGgufHeader(path)).toMatchObject({ architecture: 'llama', contextLength: 2048, embeddingLength: 576 });
  });

  it('tells what a token takes in the cache', () => {
    const qwen = {
      'general.architecture': 'qwen2',
      'qwen2.block_count': 28,
      'qwen2.embedding_length': 1536,
      'qwen2.attention.head_count': 12,
      'qwen2.attention.head_count_kv': 2,
    };
    const read = (metadata: Parameters<typeof ggufFile>[0]) => readGgufHeader(put(ggufFile(metadata)));
    expect(read(qwen)).toMatchObject({ tokenBytes: 28 * 2 * (128 + 128) * 2, dependsOnRoom: false });
    const widths = { 'qwen2.attention.key_length': 64, 'qwen2.attention.value_length': 32 };
    expect(read({ ...qwen, ...widths })?.tokenBytes).toBe(28 * 2 * (64 + 32) * 2);
    expect(read({ ...qwen, 'qwen2.attention.head_count_kv': [0, 2, 4] })?.tokenBytes).toBe(6 * (128 + 128) * 2);
    expect(read({ 'general.architecture': 'qwen2' })?.tokenBytes).toBeUndefined();
    const long = { ...qwen, 'qwen2.rope.scaling.original_context_length': 4096 };
    expect(read(long)?.dependsOnRoom).toBe(true);
    expect(read({ ...long, 'qwen2.rope.scaling.type': 'yarn' })?.dependsOnRoom).toBe(false);
  });

  it('ignores numbers of another architecture', () => {
    const path = put(ggufFile({ 'general.architecture': 'qwen2', 'llama.context_length': 2048 }));
    expect(readGgufHeader(path)).toMatchObject({
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

describe('a GGUF file with absurd counts', () => {
  const [BYTE, TEXT, ARRAY] = [0, 8, 9];
  const counted = (count: bigint) => {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(count);
    return buffer;
  };
  const array = (type: number, items: bigint, content = Buffer.alloc(0)) =>
    Buffer.concat([text('x'), unsigned32(ARRAY), unsigned32(type), counted(items), content]);
  const architecture = Buffer.concat([text('general.architecture'), unsigned32(TEXT), text('llama')]);
  const fileOf = (entry: Buffer) =>
    Buffer.concat([Buffer.from('GGUF'), unsigned32(3), unsigned64(0), unsigned64(2), entry, architecture]);

  it.each([
    ['more texts than the file could hold', fileOf(array(TEXT, 2n ** 60n, Buffer.alloc(20_000_000)))],
    ['more bytes than the file has', fileOf(array(BYTE, 2n ** 40n))],
    ['a count with the highest bit', fileOf(array(TEXT, 2n ** 64n - 1n))],
    ['more texts than any model has', fileOf(array(TEXT, 2_000_001n, Buffer.alloc(16_000_008)))],
    ['arrays of arrays', fileOf(array(ARRAY, 1n, Buffer.concat([unsigned32(ARRAY), counted(1n)])))],
    [
      'a text of 2^60 bytes',
      fileOf(Buffer.concat([text('x'), unsigned32(TEXT), counted(2n ** 60n), Buffer.alloc(99)])),
    ],
    ['a key with the highest bit in its length', fileOf(counted(2n ** 64n - 8n))],
  ])('is refused at once: %s', (_name, bytes) => {
    const path = put(bytes);
    const startedAt = performance.now();
    expect(readGgufHeader(path)).toBeUndefined();
    expect(() => checkGguf(path)).toThrow();
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });

  const whole = (tensors: bigint, entries: bigint, rest: Buffer) =>
    Buffer.concat([Buffer.from('GGUF'), unsigned32(3), counted(tensors), counted(entries), rest]);
  const tensor = (dimensions: number) =>
    Buffer.concat([text('weight'), unsigned32(dimensions), Buffer.alloc(8 * Math.min(dimensions, 4) + 12)]);

  it.each([
    ['10^15 tensors', whole(10n ** 15n, 1n, architecture), 'too many tensors'],
    ['tensors that do not fit into it', whole(5_000n, 1n, architecture), 'too many tensors'],
    [
      'more tensors than any model has',
      whole(100_001n, 1n, Buffer.concat([architecture, Buffer.alloc(3_000_000)])),
      'too many',
    ],
    ['2^63 entries', whole(0n, 2n ** 63n, architecture), 'too many entries'],
    ['entries that do not fit into it', whole(0n, 9_000n, architecture), 'too many entries'],
    [
      'a name of a tensor of 2^60 bytes',
      whole(1n, 1n, Buffer.concat([architecture, counted(2n ** 60n), Buffer.alloc(99)])),
      'cut off',
    ],
    [
      'a tensor of 2^31 dimensions',
      whole(1n, 1n, Buffer.concat([architecture, tensor(2 ** 31)])),
      'too many dimensions',
    ],
    ['a tensor that is cut off', whole(1n, 1n, Buffer.concat([architecture, tensor(2).subarray(0, -1)])), 'cut off'],
  ])('is not loaded when it claims %s', (_name, bytes, problem) => {
    const path = put(bytes);
    const startedAt = performance.now();
    expect(() => checkGguf(path)).toThrow(problem);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });

  it('is distinguished from a sound one', () => {
    expect(checkGguf(put(whole(2n, 1n, Buffer.concat([architecture, tensor(0), tensor(4)]))))).toBeUndefined();
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
