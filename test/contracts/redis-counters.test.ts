import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { openRedisCounters, type RedisCounters } from '../../packages/server/src/adapters/counters/redis/counters.ts';
import { newNamespace, redisMissing, redisUrl } from '../fixtures/redis-server.ts';
import { countersContract } from './counters.ts';

describe.skipIf(redisMissing !== undefined)('redis', () => {
  let server: Awaited<ReturnType<typeof redisUrl>>;
  const opened: RedisCounters[] = [];
  beforeAll(async () => {
    server = await redisUrl();
  });
  afterEach(() => Promise.all(opened.splice(0).map((counters) => counters.close())));
  afterAll(() => server.stop());

  countersContract('redis', async () => {
    const counters = await openRedisCounters({
      url: server.url,
      owner: 'process-1',
      leaseMs: 15_000,
      now: () => 0,
      namespace: newNamespace(),
      settleMs: 0,
      // A busy machine is no outage.
      timeoutMs: 20_000,
      time: 'caller',
    });
    opened.push(counters);
    return counters;
  });
});
