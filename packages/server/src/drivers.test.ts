import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EngineTask } from '@baobab/core/domain/model.ts';
import { PROCESSOR } from '@baobab/core/engine/driver.ts';
import { describe, expect, it } from 'vitest';
import { llama } from '../../engines/src/llama/driver.ts';
import { onnx } from '../../engines/src/onnx/driver.ts';
import { drivers, LOCAL_DRIVERS } from './drivers.ts';

const automatic = { onnxProcesses: 0, onnxThreads: 0, llamaThreads: 0, llamaSequences: 0, llamaGpu: 'auto' } as const;
const onCores = (cores: number) => ({
  cores,
  physicalCores: cores,
  memoryBytes: 64e9,
  accelerator: PROCESSOR,
  contextLength: 2048,
  directory: '/nowhere',
});
const onnxModel = (task: EngineTask) => ({
  driver: 'onnx',
  task,
  options: { model: 'model.onnx', tokenizer: 'tokenizer.json' },
});
const embedding = onnxModel('embedding');
const clip = { ...embedding, options: { ...embedding.options, imageModel: 'vision_model.onnx' } };
const chat = { driver: 'llama', task: 'chat', options: { model: 'model.gguf' } } as const;

describe('the layout of a model', () => {
  it('of onnx gives an encoder one process with one thread for each core, and slots for all of them', () => {
    expect(onnx.local.layout(embedding, automatic, onCores(2))).toMatchObject({
      processes: 2,
      threads: 1,
      slots: 86,
      slotsPerAccount: 64,
    });
    const large = { processes: 32, threads: 1, slots: 1366, slotsPerAccount: 1024 };
    expect(onnx.local.layout(embedding, automatic, onCores(32))).toMatchObject(large);
  });

  it('of onnx has more threads where the memory is small', () => {
    const small = { ...onCores(16), memoryBytes: 2.4e9 };
    expect(onnx.local.layout(embedding, automatic, small)).toMatchObject({ processes: 8, threads: 2 });
    const tiny = { ...small, memoryBytes: 1 };
    expect(onnx.local.layout(embedding, automatic, tiny)).toMatchObject({ processes: 1, threads: 16 });
  });

  it('of onnx follows what was measured on this machine, unless it is configured', () => {
    const machine = { ...onCores(16), measured: { processes: 4, threads: 4 } };
    expect(onnx.local.layout(embedding, automatic, machine)).toMatchObject({ processes: 4, threads: 4 });
    const configured = { ...automatic, onnxProcesses: 2 };
    expect(onnx.local.layout(embedding, configured, machine)).toMatchObject({ processes: 2, threads: 8 });
  });

  it('of onnx is measured on machines with several cores, unless it is configured', () => {
    const { candidates } = onnx.local.trials;
    expect(candidates(embedding, automatic, onCores(16))).toEqual([
      { processes: 16, threads: 1 },
      { processes: 8, threads: 2 },
      { processes: 4, threads: 4 },
    ]);
    const twoThreadsPerCore = { ...onCores(8), physicalCores: 4 };
    expect(candidates(embedding, automatic, twoThreadsPerCore)).toContainEqual({ processes: 4, threads: 1 });
    expect(candidates(embedding, automatic, onCores(2))).toEqual([]);
    expect(candidates(clip, automatic, onCores(16))).toEqual([]);
    expect(candidates(onnxModel('transcription'), automatic, onCores(16))).toEqual([]);
    expect(candidates(embedding, { ...automatic, onnxThreads: 1 }, onCores(16))).toEqual([]);
  });

  it('of onnx gives whisper one process with all cores, and lets several requests take turns', () => {
    const layout = onnx.local.layout(onnxModel('transcription'), automatic, onCores(4));
    expect(layout).toMatchObject({ processes: 1, threads: 4, slots: 16, slotsPerAccount: 12 });
  });

  it('of llama uses every core once', () => {
    const machine = { ...onCores(16), physicalCores: 8 };
    expect(llama.local.layout(chat, automatic, machine)).toMatchObject({ processes: 1, threads: 8, slots: 4 });
    expect(llama.local.layout(chat, automatic, onCores(1))).toMatchObject({ threads: 1 });
  });

  it('of llama has more sequences on a GPU, as many as its memory has room for', () => {
    const onGpu = (memoryBytes: number, contextLength: number) => ({
      ...onCores(8),
      contextLength,
      accelerator: { backend: 'cuda', names: ['a GPU'], memoryBytes },
    });
    const sequences = (memoryBytes: number, contextLength: number) =>
      llama.local.layout(chat, automatic, onGpu(memoryBytes, contextLength)).parallelSequences;
    expect(sequences(139e9, 8192)).toBe(32);
    expect(sequences(8e9, 8192)).toBe(7);
    expect(sequences(4e9, 32_768)).toBe(4);
  });

  it('follows the settings', () => {
    const settings = {
      onnxProcesses: 3,
      onnxThreads: 2,
      llamaThreads: 5,
      llamaSequences: 8,
      llamaGpu: 'auto',
    } as const;
    expect(onnx.local.layout(embedding, settings, onCores(2))).toMatchObject({ processes: 3, threads: 2 });
    expect(llama.local.layout(chat, settings, onCores(2))).toMatchObject({
      threads: 5,
      parallelSequences: 8,
      slots: 8,
    });
  });
});

describe('the memory planned for a chat model', () => {
  const model = { driver: 'llama', task: 'chat' as const, options: { model: 'model.gguf' } };
  const layout = llama.local.layout(model, automatic, onCores(4));
  const facts = { directory: '/nowhere', layout, contextLength: 8192, videoShare: 0 };

  it('tells what is for contexts, and none of it is for them in encoders', async () => {
    const context = await llama.local.contextBytes(model, facts);
    const rest = (await llama.local.memoryBytes(model, facts)) - context;
    const shorter = { ...facts, contextLength: 4096 };
    expect(await llama.local.contextBytes(model, shorter)).toBe(context / 2);
    expect((await llama.local.memoryBytes(model, shorter)) - context / 2).toBe(rest);
    expect(await llama.local.contextBytes({ ...model, task: 'embedding' as const }, facts)).toBe(0);
  });

  it('becomes less with fewer places, and then with shorter contexts', () => {
    const ways = [];
    for (let way = llama.local.withLessContext(facts); way !== undefined; way = llama.local.withLessContext(way)) {
      const { parallelSequences, slots } = way.layout;
      expect(slots).toBe(parallelSequences);
      ways.push([parallelSequences, way.contextLength]);
    }
    const [places, lengths] = [ways.slice(0, 3), ways.slice(3)];
    expect(places).toEqual([
      [3, 8192],
      [2, 8192],
      [1, 8192],
    ]);
    expect(lengths).toEqual([
      [1, 4096],
      [1, 2048],
    ]);
  });
});

describe('the memory planned for Whisper', () => {
  it.each([
    ['tiny', { d_model: 384, encoder_attention_heads: 6, decoder_layers: 4 }, 41e6, 0.91e9],
    ['base', { d_model: 512, encoder_attention_heads: 8, decoder_layers: 6 }, 77e6, 1.24e9],
    ['small', { d_model: 768, encoder_attention_heads: 12, decoder_layers: 12 }, 249e6, 2.32e9],
  ] as const)('of %s is what four windows at a time were measured to take', async (_size, shape, weights, measured) => {
    const directory = await mkdtemp(join(tmpdir(), 'baobab-whisper-'));
    await writeFile(join(directory, 'config.json'), JSON.stringify({ ...shape, vocab_size: 51_865 }));
    await writeFile(join(directory, 'model.onnx'), new Uint8Array(weights));
    const model = onnxModel('transcription');
    const layout = onnx.local.layout(model, automatic, onCores(4));
    const planned = await onnx.local.memoryBytes(model, { directory, layout, contextLength: 448, videoShare: 0 });
    await rm(directory, { recursive: true });
    expect(planned / measured).toBeGreaterThan(0.95);
    expect(planned / measured).toBeLessThan(1.1);
  });
});

describe('the memory planned for CLIP', () => {
  it('is what was measured with the largest images', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'baobab-clip-'));
    await writeFile(join(directory, 'model.onnx'), new Uint8Array(86.4e6));
    await writeFile(join(directory, 'vision_model.onnx'), new Uint8Array(95.4e6));
    const layout = { processes: 1, threads: 1, parallelSequences: 1, slots: 64 };
    const planned = await onnx.local.memoryBytes(clip, { directory, layout, contextLength: 77, videoShare: 0 });
    await rm(directory, { recursive: true });
    expect(planned / 749e6).toBeGreaterThan(0.95);
    expect(planned / 749e6).toBeLessThan(1.1);
  });
});

it('has every local driver in the list for servers without the engines', () => {
  expect(drivers.filter(({ local }) => local?.module !== undefined).map(({ name }) => name)).toEqual(LOCAL_DRIVERS);
});
