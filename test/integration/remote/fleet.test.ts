import { expect, it, onTestFinished } from 'vitest';
import type { ModelEntry } from '../../../packages/core/src/domain/model.ts';
import type { EngineReport } from '../../../packages/core/src/engine/report.ts';
import { systemClock } from '../../../packages/core/src/runtime/clock.ts';
import { createFleet, type FleetOptions } from '../../../packages/server/src/fleet/fleet.ts';
import type { EngineRegistry } from '../../../packages/server/src/host/registry.ts';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { noUpstreamMetrics } from '../../fixtures/remote-bench.ts';

const version = { version: '1', source: { kind: 'file' }, engine: { driver: 'llama', task: 'chat' } };
const entry = { slug: 'acme/model', contextLength: 64, recommended: '1', versions: [version] } as unknown as ModelEntry;

interface Bed {
  /** Of the engine process here. Undefined: it was never asked for. */
  here?: EngineReport['status'];
  servable: boolean;
  upstream?: string;
}

/** The status of the model as it is listed for operators, and as clients see it. */
function statuses({ here, servable, upstream }: Bed) {
  const report = { model: 'acme/model@1', processIds: [], inFlight: 0 } as unknown as EngineReport;
  const limits = { maxConcurrency: 1, connectTimeoutMs: 1_000, firstByteTimeoutMs: 1_000, totalTimeoutMs: 1_000 };
  const fleet = createFleet({
    region: 'local',
    entries: [entry],
    upstreams:
      upstream === undefined ? [] : [{ model: 'acme/model', url: upstream, kind: 'openai', name: 'm', ...limits }],
    registry: {
      list: async () => (here === undefined ? [] : [{ ...report, status: here }]),
      status: () => ({ status: here ?? 'cold' }),
      close: async () => {},
    } as unknown as EngineRegistry,
    weights: () => ({ servable }),
    remote: { logger: { info() {}, warn() {} }, clock: systemClock, metrics: noUpstreamMetrics },
  } as FleetOptions);
  onTestFinished(() => fleet.close(0));
  return async () => {
    const [listed] = await fleet.list();
    return [listed?.status, fleet.serving(entry, entry.versions[0] as (typeof entry.versions)[0]).status];
  };
}

it.each([
  [{ here: 'cold', servable: true }, ['cold', 'cold']],
  [{ here: 'cold', servable: false }, ['unavailable', 'unavailable']],
  [{ here: 'ready', servable: false }, ['ready', 'ready']],
  // Clients are not told that it is being loaded.
  [{ here: 'loading', servable: true }, ['loading', 'cold']],
] as const)('lists a model in the state in which it is served: %j', async (bed, expected) => {
  expect(await statuses(bed)()).toEqual(expected);
});

it('lists a model as ready while an upstream runs it and it is not loaded here', async () => {
  const upstream = await startFakeUpstream('openai');
  onTestFinished(() => upstream.close());
  await expect.poll(statuses({ here: 'cold', servable: true, upstream: upstream.url })).toEqual(['ready', 'ready']);
});

it('lists a model whose upstream is away as one that can be loaded here', async () => {
  const upstream = await startFakeUpstream('openai');
  await upstream.close();
  await expect.poll(statuses({ servable: true, upstream: upstream.url })).toEqual(['cold', 'cold']);
});
