import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createRequestMetrics } from './metrics.ts';

it('counts requests by method, route, status and model, and their latencies by method and route', async () => {
  const registry = new Registry();
  const { ended, firstToken } = createRequestMetrics(registry);
  const request = { method: 'POST', route: '/v1/chat/completions', status: 200, model: 'acme/one', seconds: 0.5 };
  ended(request);
  ended({ ...request, seconds: 1.5 });
  ended({ ...request, status: 503 });
  ended({ ...request, model: 'acme/two' });
  ended({ ...request, method: 'GET', route: '/healthz', model: '' });
  firstToken('acme/one', 0.2);
  const lines = (await registry.metrics()).split('\n');
  const startingWith = (start: string) => lines.filter((line) => line.startsWith(start));
  const chat = 'method="POST",route="/v1/chat/completions"';
  expect(startingWith('baobab_http_requests_total')).toEqual([
    `baobab_http_requests_total{${chat},status="200",model="acme/one"} 2`,
    `baobab_http_requests_total{${chat},status="503",model="acme/one"} 1`,
    `baobab_http_requests_total{${chat},status="200",model="acme/two"} 1`,
    'baobab_http_requests_total{method="GET",route="/healthz",status="200",model=""} 1',
  ]);
  expect(startingWith('baobab_http_request_duration_seconds_sum')).toEqual([
    `baobab_http_request_duration_seconds_sum{${chat}} 3`,
    'baobab_http_request_duration_seconds_sum{method="GET",route="/healthz"} 0.5',
  ]);
  expect(startingWith('baobab_first_token_seconds_count')).toEqual([
    'baobab_first_token_seconds_count{model="acme/one"} 1',
  ]);
});
