import { describe, expect, it } from 'vitest';
import type { EngineTask } from '../domain/model.ts';
import { PROCESSOR } from './driver.ts';
import { llama } from './llama/driver.ts';
import { onnx } from './onnx/driver.ts';

const automatic = { onnxProcesses: 0, onnxThreads: 0, llamaThreads: 0, llamaSequences: 0, llamaGpu: 'auto' } as const;
const onCores = (cores: number) => ({ cores, accelerator: PROCESSOR, contextLength: 2048 });
const onnxModel = (task: EngineTask) => ({
  driver: 'onnx',
  task,
  options: { model: 'model.onnx', tokenizer: 'tokenizer.json' },
});
const chat = { driver: 'llama', task: 'chat', options: { model: 'model.gguf' } } as const;

describe('the layout of a model', () => {
  it('of onnx gives an encoder one process with one thread for each core, and threads beyond eight processes', () => {
    expect(onnx.local.layout(onnxModel('embedding'), automatic, onCores(2))).toMatchObject({
      processes: 2,
      threads: 1,
    });
    expect(onnx.local.layout(onnxModel('embedding'), automatic, onCores(32))).toMatchObject({
      processes: 8,
      threads: 4,
    });
  });

  it('of onnx gives whisper one process with all cores, and lets several requests take turns', () => {
    const layout = onnx.local.layout(onnxModel('transcription'), automatic, onCores(4));
    expect(layout).toMatchObject({ processes: 1, threads: 4, places: 16 });
  });

  it('of llama leaves a core to the rest', () => {
    expect(llama.local.layout(chat, automatic, onCores(8))).toMatchObject({ processes: 1, threads: 7, places: 4 });
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
    expect(onnx.local.layout(onnxModel('embedding'), settings, onCores(2))).toMatchObject({ processes: 3, threads: 2 });
    expect(llama.local.layout(chat, settings, onCores(2))).toMatchObject({
      threads: 5,
      parallelSequences: 8,
      places: 8,
    });
  });
});
