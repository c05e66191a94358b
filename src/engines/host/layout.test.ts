import { describe, expect, it } from 'vitest';
import type { EngineSpec } from '../../domain/model.ts';
import { chooseLayout } from './layout.ts';

const automatic = { onnxProcesses: 0, onnxThreads: 0, llamaThreads: 0, llamaSequences: 4 };
const encoder: EngineSpec = { driver: 'onnx', task: 'embedding', model: 'model.onnx', tokenizer: 'tokenizer.json' };
const whisper: EngineSpec = { ...encoder, task: 'transcription' };
const chat: EngineSpec = { driver: 'llama', task: 'chat', model: 'model.gguf' };

describe('layout', () => {
  it('gives an encoder one process with one thread for each core, and threads beyond eight processes', () => {
    expect(chooseLayout(encoder, automatic, 2)).toMatchObject({ processes: 2, threads: 1 });
    expect(chooseLayout(encoder, automatic, 32)).toMatchObject({ processes: 8, threads: 4 });
  });

  it('gives whisper one process with all cores, and lets several requests take turns', () => {
    expect(chooseLayout(whisper, automatic, 4)).toMatchObject({ processes: 1, threads: 4, places: 16 });
  });

  it('leaves a core to the rest beside llama', () => {
    expect(chooseLayout(chat, automatic, 8)).toMatchObject({ processes: 1, threads: 7, places: 4 });
    expect(chooseLayout(chat, automatic, 1)).toMatchObject({ threads: 1 });
  });

  it('does what the settings say', () => {
    const settings = { onnxProcesses: 3, onnxThreads: 2, llamaThreads: 5, llamaSequences: 8 };
    expect(chooseLayout(encoder, settings, 2)).toMatchObject({ processes: 3, threads: 2 });
    expect(chooseLayout(chat, settings, 2)).toMatchObject({ threads: 5, parallelSequences: 8, places: 8 });
  });
});
