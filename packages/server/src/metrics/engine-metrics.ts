import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { EngineMetrics } from '../host/metrics.ts';

/** Engine processes as Prometheus metrics. */
export function createEngineMetrics(registry: Registry): EngineMetrics {
  const registers = [registry];
  const labelNames = ['model'] as const;
  const load = new Histogram({
    name: 'baobab_model_load_seconds',
    help: 'Time to load a model',
    labelNames,
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    registers,
  });
  const depth = new Gauge({
    name: 'baobab_model_queue_depth',
    help: 'Requests waiting for a model',
    labelNames,
    registers,
  });
  const wait = new Histogram({
    name: 'baobab_model_queue_wait_seconds',
    help: 'Time a request waited for a model',
    labelNames: ['model', 'priority'] as const,
    buckets: [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 120],
    registers,
  });
  const batch = new Histogram({
    name: 'baobab_engine_call_inputs',
    help: 'Inputs in one call to an engine process',
    labelNames,
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
    registers,
  });
  const tokens = new Counter({
    name: 'baobab_model_tokens_total',
    help: 'Tokens read and written by models on this machine',
    labelNames: ['model', 'direction'] as const,
    registers,
  });
  const restarts = new Counter({
    name: 'baobab_engine_restarts_total',
    help: 'Engine processes started again after a crash or a hang',
    labelNames,
    registers,
  });
  const memory = new Gauge({
    name: 'baobab_engine_resident_bytes',
    help: 'Memory of all processes of a model',
    labelNames,
    registers,
  });
  const video = new Gauge({
    name: 'baobab_engine_video_bytes',
    help: 'Memory of GPUs that a model takes',
    labelNames,
    registers,
  });
  const device = new Gauge({
    name: 'baobab_engine_device_info',
    help: 'What a loaded model runs on, and how many of its layers are on GPUs',
    labelNames: ['model', 'backend', 'gpus', 'gpu_layers', 'layers'] as const,
    registers,
  });
  const devices = new Map<
    string,
    { model: string; backend: string; gpus: string; gpu_layers: number; layers: number }
  >();

  return {
    loaded: (model, seconds) => load.observe({ model }, seconds),
    queueDepth: (model, waiting) => depth.set({ model }, waiting),
    queueWaited: (model, seconds, priority) => wait.observe({ model, priority }, seconds),
    batchSize: (model, inputs) => batch.observe({ model }, inputs),
    tokens: (model, used) => {
      tokens.inc({ model, direction: 'in' }, used.input);
      tokens.inc({ model, direction: 'out' }, used.output);
    },
    restarted: (model) => restarts.inc({ model }),
    residentBytes: (model, bytes) => memory.set({ model }, bytes),
    device(model, used) {
      const before = devices.get(model);
      if (before !== undefined) device.remove(before);
      devices.delete(model);
      video.set({ model }, used?.videoBytes ?? 0);
      if (used === undefined) return;
      const { backend, names, gpuLayers, layers } = used;
      const labels = { model, backend, gpus: names.join(', '), gpu_layers: gpuLayers, layers };
      devices.set(model, labels);
      device.set(labels, 1);
    },
  };
}
