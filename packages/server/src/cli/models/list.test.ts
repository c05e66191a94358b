import type { ModelEntry } from '@baobab/core/domain/model.ts';
import { type EngineReport, idleEngine, type UpstreamHealth } from '@baobab/core/engine/report.ts';
import { expect, it } from 'vitest';
import type { WeightsState, WeightsStore } from '../../models/store.ts';
import type { CatalogService } from '../../services/catalog/catalog.ts';
import { listModels } from './list.ts';

const version = { version: '2026-11-15', source: { kind: 'file', path: '/weights' }, deprecatedAt: null };
const entry = { slug: 'acme/one', modality: 'chat', recommended: '2026-11-15', versions: [version] };
const engine: EngineReport = {
  ...idleEngine('acme/one@2026-11-15', 'unavailable'),
  reason: 'its weights are not installed',
};

async function list(state: Partial<WeightsState>, asJson = false, report: EngineReport = engine): Promise<string> {
  const printed: string[] = [];
  await listModels({
    store: { probe: async () => {}, state: () => state } as unknown as WeightsStore,
    catalog: { list: () => [{ entry, version }] } as unknown as CatalogService,
    engines: [report],
    upstreamModels: [],
    all: true,
    json: asJson,
    print: (text) => printed.push(text),
  });
  return printed.join('\n');
}

it('keeps the precise reason after a request has failed', async () => {
  const state = { status: 'unreachable', servable: false, totalBytes: 0, reason: 'there is no /weights' } as const;
  expect(await list(state)).toContain('there is no /weights');
  expect(JSON.parse(await list(state, true))).toMatchObject([{ id: 'acme/one', reason: 'there is no /weights' }]);
});

it('shows the reason of the engine where the weights are fine', async () => {
  expect(await list({ status: 'present', servable: true, bytesOnDisk: 1, reason: undefined })).toContain(
    'its weights are not installed',
  );
});

it('shows the problems of upstreams first', async () => {
  const upstream: UpstreamHealth = {
    ...{ index: 0, address: '10.0.0.7:8000', kind: 'vllm', region: 'local', breaker: 'closed', maxConcurrency: 64 },
    ...{ healthy: true, misconfigured: false, inFlight: 1, problem: undefined, lastError: undefined },
  };
  const upstreams = [{ ...upstream, healthy: false, inFlight: 0, problem: 'the health check answered 503' }, upstream];
  const state = { status: 'unreachable', servable: false, totalBytes: 0, reason: 'there is no /weights' } as const;
  const text = await list(state, false, { ...engine, upstreams });
  expect(text).toContain('10.0.0.7:8000: the health check answered 503');
  expect(text).not.toContain('/weights');
});

async function listRemote(all: boolean): Promise<string[]> {
  const remote = { ...version, source: undefined };
  const entries = ['acme/a', 'acme/b', 'acme/c'].map((slug) => ({ ...entry, slug })) as unknown as ModelEntry[];
  const printed: string[] = [];
  await listModels({
    store: { probe: async () => {} } as unknown as WeightsStore,
    catalog: { list: () => entries.map((each) => ({ entry: each, version: remote })) } as unknown as CatalogService,
    engines: undefined,
    upstreamModels: ['acme/b', 'acme/c@2026-11-15'],
    all,
    json: false,
    print: (text) => printed.push(text),
  });
  return printed.join('\n').split('\n').slice(1);
}

it('leaves out what cannot be served, and says how many models that are', async () => {
  const [first, second, ...rest] = await listRemote(false);
  expect([first, second].map((row) => row?.split(' ')[0])).toEqual(['acme/b', 'acme/c']);
  expect(rest).toEqual(['', '2 models; 0 with weights here; 1 more that cannot be served here, with --all']);
});

it('puts what cannot be served last, with the reason, when all are listed', async () => {
  const rows = (await listRemote(true)).slice(0, 3);
  expect(rows.map((row) => row.split(' ')[0])).toEqual(['acme/b', 'acme/c', 'acme/a']);
  expect(rows[2]).toMatch(/upstream only +- +unavailable +no upstream is configured for it$/);
});
