import { describe, expect, it } from 'vitest';
import type { EngineTask } from '../domain/model.ts';
import { llama } from './llama/driver.ts';
import { onnx } from './onnx/driver.ts';

const automatic = { onnxProcesses: 0, onnxThreads: 0, llamaThreads: 0, llamaSequences: 4 };
const onnxModel = (task: EngineTask) => ({
  driver: 'onnx',
  task,
  options: { model: 'model.onnx', tokenizer: 'tokenizer.json' },
});
const chat = { driver: 'llama', task: 'chat', options: { model: 'model.gguf' } } as const;

describe('the layout of a model', () => {
  it('of onnx gives an encoder one process with one thread for each core, and threads beyond eight processes', () => {
    expect(onnx.local.layout(onnxModel('embedding'), automatic, 2)).toMatchObject({ processes: 2, threads: 1 });
    expect(onnx.local.layout(onnxModel('embedding'), automatic, 32)).toMatchObject({ processes: 8, threads: 4 });
  });

  it('of onnx gives whisper one process with all cores, and lets several requests take turns', () => {
    const layout = onnx.local.layout(onnxModel('transcription'), automatic, 4);
    expect(layout).toMatchObject({ processes: 1, threads: 4, places: 16 });
  });

  it('of llama leaves a core to the rest', () => {
    expect(llama.local.layout(chat, automatic, 8)).toMatchObject({ processes: 1, threads: 7, places: 4 });
    expect(llama.local.layout(chat, automatic, 1)).toMatchObject({ threads: 1 });
  });

  it('follows the settings', () => {
    const settings = { onnxProcesses: 3, onnxThreads: 2, llamaThreads: 5, llamaSequences: 8 };
    expect(onnx.local.layout(onnxModel('embedding'), settings, 2)).toMatchObject({ processes: 3, threads: 2 });
    expect(llama.local.layout(chat, settings, 2)).toMatchObject({ threads: 5, parallelSequences: 8, places: 8 });
  });
});
