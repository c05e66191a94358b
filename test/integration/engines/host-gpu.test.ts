import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createEngineMetrics } from '../../../packages/server/src/metrics/engine-metrics.ts';
import { scriptedOnGpu } from '../../fixtures/drivers/scripted-driver.ts';
import { embed, engineBed, testModel, use } from '../../fixtures/engine-bed.ts';

describe('models on a GPU', () => {
  it('are reported with their device', async () => {
    const registry = new Registry();
    await using bed = engineBed({ processes: 1, driver: scriptedOnGpu, metrics: createEngineMetrics(registry) });
    await bed.embed(['a']);
    const device = { backend: 'scripted-gpu', names: ['Scripted GPU'], gpuLayers: 10, layers: 10, videoBytes: 600e6 };
    expect(bed.registry.status('test/echo@2026-01-01')).toEqual({ status: 'ready', device });
    expect(await bed.registry.list()).toMatchObject([{ device }]);
    const exposed = await registry.metrics();
    expect(exposed).toContain('baobab_engine_video_bytes{model="test/echo@2026-01-01"} 600000000');
    expect(exposed).toContain(
      'baobab_engine_device_info{model="test/echo@2026-01-01",backend="scripted-gpu",gpus="Scripted GPU",gpu_layers="10",layers="10"} 1',
    );
    await bed.registry.close(0);
    const afterwards = await registry.metrics();
    expect(afterwards).toContain('baobab_engine_video_bytes{model="test/echo@2026-01-01"} 0');
    expect(afterwards).not.toContain('baobab_engine_device_info{');
  });

  it('share its memory: an idle one makes room for the next', async () => {
    await using bed = engineBed({ processes: 1, driver: scriptedOnGpu });
    await bed.embed(['a']);
    await use(bed.registry, { model: testModel('test/other') }, (engine) => embed(engine, ['b']));
    expect(bed.registry.status('test/echo@2026-01-01')).toEqual({ status: 'cold' });
    expect(bed.registry.status('test/other@2026-01-01')).toMatchObject({ status: 'ready' });
  });

  it('stay when the configured memory has room for both', async () => {
    await using bed = engineBed({ processes: 1, driver: scriptedOnGpu, settings: { vramBudgetMb: 2_000 } });
    await bed.embed(['a']);
    await use(bed.registry, { model: testModel('test/other') }, (engine) => embed(engine, ['b']));
    expect(bed.registry.status('test/echo@2026-01-01')).toMatchObject({ status: 'ready' });
  });
});
