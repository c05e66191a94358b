import { expect, it } from 'vitest';
import { testModel } from '../../../../../../test/fixtures/engine-bed.ts';
import { toWire } from './schema.ts';

const device = { backend: 'cuda', names: ['NVIDIA H200'], gpuLayers: 31, layers: 31, videoBytes: 1.2e9 };
const model = { ...testModel(), serving: { regions: ['local'], status: 'ready' as const, device }, aliases: [] };

it('operators see what a model runs on, and others do not', () => {
  expect(toWire(model, { forOperators: true }).device).toEqual({
    backend: 'cuda',
    gpus: ['NVIDIA H200'],
    gpu_layers: 31,
    layers: 31,
    vram_bytes: 1.2e9,
  });
  expect(toWire(model)).not.toHaveProperty('device');
});
