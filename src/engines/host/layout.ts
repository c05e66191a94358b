import type { EngineSpec } from '../../domain/model.ts';

export interface LayoutSettings {
  /** 0: chosen from the cores, as for the other counts. */
  onnxProcesses: number;
  onnxThreads: number;
  llamaThreads: number;
  llamaSequences: number;
}

/** How a model is spread over the machine. */
export interface Layout {
  processes: number;
  /** Of each process. */
  threads: number;
  parallelSequences: number;
  /** Requests that may be at work together; the others wait outside, where they wait in fair order. */
  places: number;
}

/** Each process holds the weights once more; beyond this threads are the better use of cores. */
const MAX_PROCESSES = 8;
/** Encoders gain from many small requests at hand; chunks of large ones wait in the placement, not in the process. */
const ENCODER_PLACES = 64;
/** One window is at work at a time, but requests take turns window by window: an hour of audio must not block a short clip. */
const TRANSCRIPTION_PLACES = 16;

export function chooseLayout(engine: EngineSpec, settings: LayoutSettings, cores: number): Layout {
  if (engine.driver === 'llama') {
    // ggml's threads spin at barriers: without a core left to the rest they wait for each other all the time.
    const threads = settings.llamaThreads || Math.max(1, cores - 1);
    const parallelSequences = engine.task === 'chat' ? settings.llamaSequences : 1;
    const places = engine.task === 'chat' ? parallelSequences : ENCODER_PLACES;
    return { processes: 1, threads, parallelSequences, places };
  }
  if (engine.task === 'transcription') {
    const processes = settings.onnxProcesses || 1;
    const threads = settings.onnxThreads || Math.max(1, Math.floor(cores / processes));
    return { processes, threads, parallelSequences: 1, places: TRANSCRIPTION_PLACES };
  }
  const processes = settings.onnxProcesses || Math.min(cores, MAX_PROCESSES);
  const threads = settings.onnxThreads || Math.max(1, Math.floor(cores / processes));
  return { processes, threads, parallelSequences: 1, places: ENCODER_PLACES };
}
