import { Agent, request } from 'node:http';
import { parseArgs } from 'node:util';
import { API_KEY, startServer } from '../test/acceptance/start-server.ts';
import { startFakeUpstream } from '../test/fixtures/fake-upstream.ts';
import { redisMissing, redisUrl } from '../test/fixtures/redis-server.ts';
import { createReport, median, percentile, printConditions } from './measure.ts';

/**
 * What counters in Redis add to a request: the same requests, one after the other, to a server with counters in memory and to one with
 * counters in Redis on the same machine. Rounds alternate between the two. Uses BAOBAB_TEST_REDIS_URL, or starts a Redis.
 */
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, requests: { type: 'string', default: '1000' } },
});
const MODEL = 'intfloat/e5-mistral-7b-instruct';
const BODY = JSON.stringify({ model: MODEL, input: 'one two three' });
const GOAL_MS = 1;

if (redisMissing !== undefined) throw new Error(redisMissing);
const redis = await redisUrl();
const upstream = await startFakeUpstream('openai', {});
const env = {
  BAOBAB_LOG_LEVEL: 'error',
  BAOBAB_LIMITS_EMBEDDING_RPM: '100000000',
  BAOBAB_LIMITS_EMBEDDING_TPM: '1000000000',
  BAOBAB_UPSTREAMS: JSON.stringify([{ model: MODEL, url: upstream.url }]),
};
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function ask(address: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' };
  const sent = request(`${address}/v1/embeddings`, { method: 'POST', agent, headers }, (answer) => {
    if (answer.statusCode !== 200) reject(new Error(`answered ${answer.statusCode}`));
    answer.resume().on('end', resolve);
  });
  sent.on('error', reject).end(BODY);
  return promise;
}

async function p50(address: string): Promise<number> {
  const times: number[] = [];
  for (let sent = 0; sent < Number(values.requests); sent += 1) {
    const began = performance.now();
    await ask(address);
    times.push(performance.now() - began);
  }
  return percentile(times, 0.5);
}

try {
  printConditions('counters');
  await using memory = await startServer({ env });
  await using shared = await startServer({ env: { ...env, BAOBAB_COUNTERS: redis.url } });
  await p50(memory.address);
  await p50(shared.address);
  const rounds: { inMemory: number; inRedis: number }[] = [];
  for (let round = 0; round < Number(values.rounds); round += 1) {
    rounds.push({ inMemory: await p50(memory.address), inRedis: await p50(shared.address) });
  }
  const report = createReport();
  const unit = 'ms';
  report.add({ name: 'p50 with counters in memory', value: median(rounds.map(({ inMemory }) => inMemory)), unit });
  report.add({ name: 'p50 with counters in Redis', value: median(rounds.map(({ inRedis }) => inRedis)), unit });
  const added = median(rounds.map(({ inMemory, inRedis }) => inRedis - inMemory));
  report.add({ name: 'added by Redis, median of rounds', value: added, atMost: GOAL_MS, unit });
  report.print();
} finally {
  agent.destroy();
  await upstream.close();
  await redis.stop();
}
