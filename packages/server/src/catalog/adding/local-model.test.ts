import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ggufFile } from '../../../../engines/src/llama/testing/gguf-file.ts';
import { drivers } from '../../drivers.ts';
import { loadCatalog } from '../load.ts';
import { addedFolders, writeDraft } from './catalog-folder.ts';
import { draftLocalModel } from './local-model.ts';
import { AddError } from './reference.ts';

const open: string[] = [];
afterEach(() => {
  for (const path of open.splice(0)) rmSync(path, { recursive: true, force: true });
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'baobab-add-'));
  open.push(path);
  return path;
}

it.each([
  ['a NUL', 'a\0b.gguf'],
  ['too many characters', `${'a'.repeat(300)}.gguf`],
])('a name with %s is refused as no file of this system', (_, name) => {
  expect(() => draftLocalModel(join(folder(), name), {}, drivers)).toThrow(AddError);
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

  it('in parts is added whole, by any part', async () => {
    const directory = folder();
    const parts = [1, 2, 3].map((number) => `large-0000${number}-of-00003.gguf`);
    const [first = '', second = '', third = ''] = parts.map((name) => join(directory, name));
    writeFileSync(first, ggufFile({ 'general.architecture': 'llama', 'llama.context_length': 4096 }));
    writeFileSync(third, ggufFile({}));
    expect(() => draftLocalModel(first, {}, drivers)).toThrow(
      `${first} is one of 3 parts of a model; put beside it: large-00002-of-00003.gguf`,
    );
    writeFileSync(second, ggufFile({}));
    const { entry } = draftLocalModel(third, {}, drivers);
    expect(entry).toMatchObject({
      slug: 'local/large',
      context_length: 4096,
      source: { kind: 'file', path: first },
    });
    const folders = addedFolders(folder());
    await writeDraft(folders, { entry }, { known: false, beforeChange: async () => {} });
    expect(loadCatalog([folders.catalog])[0]?.versions[0]).toMatchObject({
      engine: { driver: 'llama', options: { model: parts[0] } },
      source: { kind: 'file', path: directory, files: parts.map((as) => ({ as })) },
    });
    rmSync(second);
    expect(() => loadCatalog([folders.catalog])).toThrow("there is no file 'large-00002-of-00003.gguf'");
  });

  it('may have a name with spaces', async () => {
    const path = join(folder(), 'My Model (2).gguf');
    writeFileSync(path, ggufFile({ 'general.architecture': 'llama', 'llama.context_length': 4096 }));
    const { entry } = draftLocalModel(path, {}, drivers);
    const folders = addedFolders(folder());
    await writeDraft(folders, { entry }, { known: false, beforeChange: async () => {} });
    expect(loadCatalog([folders.catalog])[0]).toMatchObject({ slug: 'local/my-model-2', contextLength: 4096 });
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

  const encoder = (config: object) => {
    const path = folder();
    writeFileSync(join(path, 'model.onnx'), 'weights');
    writeFileSync(join(path, 'tokenizer.json'), '{}');
    writeFileSync(join(path, 'config.json'), JSON.stringify({ hidden_size: 384, ...config }));
    return path;
  };

  it('pools vectors as sentence-transformers wrote it', () => {
    const path = encoder({ max_position_embeddings: 514 });
    mkdirSync(join(path, '1_Pooling'));
    writeFileSync(join(path, '1_Pooling/config.json'), JSON.stringify({ pooling_mode_cls_token: true }));
    const { entry, notes } = draftLocalModel(path, {}, drivers);
    expect(entry).toMatchObject({ modality: 'embedding', context_length: 512, engine: { pooling: 'cls' } });
    expect(notes).toEqual([]);
    expect(draftLocalModel(path, { pooling: 'mean' }, drivers).entry).not.toHaveProperty('engine');
  });

  it('other than Whisper is refused as an audio model', () => {
    const path = encoder({ architectures: ['BertForSequenceClassification'] });
    expect(() => draftLocalModel(path, { modality: 'audio' }, drivers)).toThrow('only Whisper models');
  });

  it('says that it assumes the mean where nothing says how vectors are pooled', () => {
    const { entry, notes } = draftLocalModel(encoder({}), {}, drivers);
    expect(entry).not.toHaveProperty('engine');
    expect(notes?.[0]).toContain('mean is assumed');
  });

  it('of CLIP takes texts and images', async () => {
    const path = folder();
    mkdirSync(join(path, 'onnx'));
    const weights = ['model.onnx', 'text_model_quantized.onnx', 'text_model.onnx', 'vision_model_quantized.onnx'];
    for (const file of weights) writeFileSync(join(path, 'onnx', file), 'weights');
    writeFileSync(join(path, 'tokenizer.json'), '{}');
    writeFileSync(join(path, 'preprocessor_config.json'), '{}');
    // As newer tools write it, without what is as usual.
    const config = { model_type: 'clip', projection_dim: 512, text_config: {}, vision_config: {} };
    writeFileSync(join(path, 'config.json'), JSON.stringify(config));
    const { entry, notes } = draftLocalModel(path, { slug: 'acme/clip' }, drivers);
    expect(notes).toBeUndefined();
    expect(entry).toMatchObject({
      modality: 'embedding',
      context_length: 77,
      dimensions: 512,
      capabilities: { vision: true },
    });
    const folders = addedFolders(folder());
    await writeDraft(folders, { entry }, { known: false, beforeChange: async () => {} });
    const [written] = loadCatalog([folders.catalog]);
    expect(written?.capabilities).toMatchObject({ vision: true, tools: false });
    expect(written?.versions[0]?.engine).toEqual({
      driver: 'onnx',
      task: 'embedding',
      options: {
        model: 'onnx/text_model_quantized.onnx',
        imageModel: 'onnx/vision_model_quantized.onnx',
        tokenizer: 'tokenizer.json',
      },
    });
  });

  it.each([
    ['encoder.onnx', 'decoder.onnx'],
    ['onnx/encoder_model_quantized.onnx', 'onnx/decoder_model_merged_quantized.onnx'],
  ])('of Whisper with %s becomes an audio model', async (encoderFile, decoderFile) => {
    const path = folder();
    mkdirSync(join(path, 'onnx'));
    for (const file of [encoderFile, decoderFile, 'tokenizer.json', 'generation_config.json']) {
      writeFileSync(join(path, file), '{}');
    }
    writeFileSync(join(path, 'config.json'), JSON.stringify({ model_type: 'whisper', max_target_positions: 448 }));
    const { entry } = draftLocalModel(path, { slug: 'acme/ears' }, drivers);
    expect(entry).toMatchObject({ modality: 'audio', context_length: 448 });
    expect(() => draftLocalModel(path, { modality: 'embedding' }, drivers)).toThrow('leave the option out');
    const folders = addedFolders(folder());
    await writeDraft(folders, { entry }, { known: false, beforeChange: async () => {} });
    const [written] = loadCatalog([folders.catalog]);
    expect(written?.versions[0]?.engine).toEqual({
      driver: 'onnx',
      task: 'transcription',
      options: { model: encoderFile, decoder: decoderFile, tokenizer: 'tokenizer.json' },
    });
  });
});
