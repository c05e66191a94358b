import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { modelsCommand } from '../../../packages/server/src/cli/models/models.ts';
import { loadConfig } from '../../../packages/server/src/config/load.ts';
import { createUpstreamMetrics } from '../../../packages/server/src/metrics/upstream-metrics.ts';
import { answerJson, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { type BenchOptions, collect, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';
import { CHAT, EMBEDDING, startHttpBed } from '../http/bed.ts';

const hello: ChatRequest = { prompt: { messages: [{ role: 'user', content: 'Hi' }] } };

describe('upstream metrics', () => {
  let bench: RemoteBench;
  const registry = new Registry();
  afterEach(async () => {
    await bench.close();
    registry.clear();
  });
  const start = async (options: BenchOptions): Promise<string[]> => {
    bench = await remoteBench({ ...options, model: { metrics: createUpstreamMetrics(registry), ...options.model } });
    return bench.upstreams.map(({ url }) => new URL(url).host);
  };
  const value = async (name: string, labels: Record<string, string | undefined>): Promise<number | undefined> => {
    const { values = [] } = (await registry.getSingleMetric(name)?.get()) ?? {};
    const wanted = Object.entries({ model: 'acme/model@1', ...labels });
    return values.find((each) => wanted.every(([label, text]) => String(each.labels[label]) === text))?.value;
  };

  it('count requests by outcome, failures by kind, and retries', async () => {
    const [first, second] = await start({ upstreams: [{}, {}] });
    bench.upstreams[0]?.script.push(answerJson(500, {}));
    await collect(bench.chat(hello));
    bench.upstreams[0]?.script.push(answerJson(400, { error: { message: 'bad', code: 400 } }));
    await collect(bench.chat(hello)).catch(() => undefined);

    expect(await value('baobab_upstream_requests_total', { upstream: first, outcome: 'failed' })).toBe(1);
    expect(await value('baobab_upstream_requests_total', { upstream: first, outcome: 'rejected' })).toBe(1);
    expect(await value('baobab_upstream_requests_total', { upstream: second, outcome: 'ok' })).toBe(1);
    expect(await value('baobab_upstream_failures_total', { upstream: first, kind: 'broken' })).toBe(1);
    expect(await value('baobab_upstream_failures_total', { upstream: first, kind: 'timeout' })).toBe(0);
    expect(await value('baobab_upstream_retries_total', { upstream: first })).toBe(0);
    expect(await value('baobab_upstream_retries_total', { upstream: second })).toBe(1);
    const count = { upstream: second, le: '+Inf' };
    expect(await value('baobab_upstream_request_duration_seconds', count)).toBe(1);
  });

  it('show the breaker, the health, running and waiting requests', async () => {
    const [host] = await start({ upstreams: [{ settings: { maxConcurrency: 1 } }] });
    const upstream = bench.upstreams[0];
    if (upstream === undefined) throw new Error('no upstream');
    upstream.behaviour.stallAfterChunks = 3;
    const running = bench.chat(hello)[Symbol.asyncIterator]();
    await running.next();
    const waiting = collect(bench.chat(hello));
    expect(await value('baobab_upstream_in_flight', { upstream: host })).toBe(1);
    expect(await value('baobab_upstream_queue_depth', {})).toBe(1);
    upstream.behaviour.stallAfterChunks = undefined;
    await running.return?.();
    await waiting;
    expect(await value('baobab_upstream_in_flight', { upstream: host })).toBe(0);
    expect(await value('baobab_upstream_queue_depth', {})).toBe(0);
    expect(await value('baobab_upstream_breaker_state', { upstream: host, state: 'closed' })).toBe(1);

    upstream.script.push(...Array.from({ length: 5 }, () => answerJson(500, {})));
    for (let i = 0; i < 5; i++) await collect(bench.chat(hello, { accountId: `acc_${i}` })).catch(() => undefined);
    expect(await value('baobab_upstream_healthy', { upstream: host })).toBe(0);
    expect(await value('baobab_upstream_breaker_state', { upstream: host, state: 'open' })).toBe(1);
    expect(await value('baobab_upstream_breaker_state', { upstream: host, state: 'closed' })).toBe(0);
    bench.clock.advance(1_000);
    expect(await value('baobab_upstream_breaker_state', { upstream: host, state: 'half-open' })).toBe(1);
  });

  it('tell upstreams with the same host apart', async () => {
    await using other = await startFakeUpstream('openai').then((fake) => ({
      url: fake.url,
      [Symbol.asyncDispose]: fake.close,
    }));
    await start({ upstreams: [{ settings: { url: other.url } }, { settings: { url: other.url } }] });
    const { host } = new URL(other.url);
    expect(bench.model.health().map(({ address }) => address)).toEqual([`${host}#0`, `${host}#1`]);
  });
});

describe('a misnamed upstream', () => {
  it.each([
    ['vllm', 'other-model', "it lists no model named 'upstream-model'"],
    ['vllm', 'upstream-model', undefined],
    ['ollama', 'upstream-model:latest', undefined],
    ['tei', 'other-model', undefined],
  ] as const)('%s with the model %s: %s', async (kind, id, problem) => {
    const registry = new Registry();
    const bench = await remoteBench({
      upstreams: [{ kind, behaviour: { models: [id] } }],
      model: { healthIntervalMs: 10, metrics: createUpstreamMetrics(registry) },
    });
    const checked = bench.upstreams[0]?.until(() => (bench.upstreams[0]?.healthChecks() ?? 0) > 4);
    await checked;
    const misconfigured = problem !== undefined;
    expect(bench.model.health()).toMatchObject([{ healthy: true, misconfigured, problem }]);
    const gauge = await registry.getSingleMetric('baobab_upstream_misconfigured')?.get();
    expect(gauge?.values.map(({ value }) => value)).toEqual([misconfigured ? 1 : 0]);
    await bench.close();
  });
});

describe('a dead upstream', () => {
  it('is shown with the reason by models ps, models list and /metrics, and answers 503 with Retry-After', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'baobab-upstreams-'));
    const dead = '127.0.0.1:9';
    await using bed = await startHttpBed({
      data_dir: dataDir,
      upstreams: [{ model: EMBEDDING, url: `http://${dead}/v1`, kind: 'tei', api_key: 'upstream-secret' }],
    });
    const { config } = loadConfig({ args: [], env: { BAOBAB_DATA_DIR: dataDir }, workingDirectory: dataDir });
    const models = async (...args: string[]): Promise<string> => {
      const lines: string[] = [];
      const context = { args, config, configFile: undefined, locate: () => '', env: { HOME: dataDir } };
      await modelsCommand.run({ ...context, print: (line) => lines.push(line) });
      return lines.join('\n');
    };
    const row = new RegExp(`${EMBEDDING}@\\S+ +${dead} +tei +local +down +closed +0 of 64 +the health check failed`);
    await expect.poll(() => models('ps')).toMatch(row);
    // It could also run here: cold, until it is known that its weights can be fetched from nowhere.
    const reports = async (): Promise<unknown> => JSON.parse(await models('ps', '--json'));
    await expect.poll(reports).toMatchObject([
      {
        model: expect.stringMatching(new RegExp(`^${EMBEDDING}@`)),
        status: 'unavailable',
        reason: expect.stringContaining(`${dead}: the health`),
      },
    ]);
    const list = await models('list', '--all');
    expect(list.split('\n').find((line) => line.startsWith(EMBEDDING))).toContain(`${dead}: the health check failed`);
    expect(list.split('\n').find((line) => line.startsWith(CHAT))).not.toContain('health check');

    const refused = await bed.post('/v1/embeddings', { model: EMBEDDING, input: 'Hi' });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);

    const metrics = await (await bed.fetch('/metrics')).text();
    expect(metrics).toMatch(new RegExp(`baobab_upstream_healthy\\{model="${EMBEDDING}@[^"]+",upstream="${dead}"\\} 0`));
    expect(metrics + list).not.toContain('upstream-secret');
    await rm(dataDir, { recursive: true, force: true });
  });
});
