import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../src/adapters/store.ts';
import { offsetSpans } from '../src/domain/time/time-zone.ts';
import type { RequestEntry } from '../src/ports/request-log.ts';

/** Measures the list and the latency report over a month with a million requests, and what adding them costs. */
const ROWS = Number(process.argv[2] ?? 1_000_000);
const COMMIT_ROWS = 500;
const START = Date.UTC(2026, 9, 1);
const END = Date.UTC(2026, 10, 1);
const GOAL_MS = 1_000;

const pick = (count: number) => Math.floor(Math.random() * count);
const entry = (number: number): RequestEntry => {
  const failed = pick(50) === 0;
  return {
    id: `req_${number.toString(36).padStart(24, '0')}`,
    time: START + Math.floor(((END - START) * number) / ROWS),
    accountId: 'acct_bench',
    keyId: `key_${String(pick(20)).padStart(24, '0')}`,
    endpoint: '/v1/chat/completions',
    model: `provider/model-number-${pick(8)}`,
    version: '2026-01-31',
    region: 'local',
    status: failed ? 503 : 200,
    code: failed ? 'model_unavailable' : null,
    promptTokens: pick(4_000),
    completionTokens: pick(1_000),
    cacheReadTokens: 0,
    audioSeconds: 0,
    costNanoUsd: pick(5_000_000),
    durationMs: Math.round(Math.exp(Math.random() * 4 + 4)),
    firstTokenMs: pick(300),
    replayed: false,
    attempts: [{ upstream: '10.0.0.1:8000', region: 'local', outcome: 'ok', durationMs: 100, detail: null }],
  };
};

const directory = await mkdtemp(join(tmpdir(), 'baobab-bench-requests-'));
const { requests, close } = await openStore({ kind: 'sqlite', path: join(directory, 'baobab.db') });
try {
  const filled = performance.now();
  let ownMicroseconds = 0;
  for (let first = 0; first < ROWS; first += COMMIT_ROWS) {
    const rows = Array.from({ length: Math.min(COMMIT_ROWS, ROWS - first) }, (_, offset) => entry(first + offset));
    const before = process.threadCpuUsage();
    const group = requests.collect();
    for (const row of rows) group.add(row);
    await group.store();
    const { user, system } = process.threadCpuUsage(before);
    ownMicroseconds += user + system;
  }
  const seconds = (performance.now() - filled) / 1000;
  console.log(`${ROWS} requests added in ${seconds.toFixed(1)} s: ${Math.round(ROWS / seconds)} a second`);
  console.log(`on the server's own thread: ${(ownMicroseconds / ROWS).toFixed(1)} µs for each`);

  const measure = async (name: string, work: () => Promise<unknown>) => {
    const times: number[] = [];
    for (let run = 0; run < 3; run += 1) {
      const startedAt = performance.now();
      await work();
      times.push(performance.now() - startedAt);
    }
    const best = Math.min(...times);
    console.log(`${name}: ${best.toFixed(0)} ms`);
    return best;
  };
  const accountId = 'acct_bench';
  const window = { accountId, start: START, end: END };
  const slowest = Math.max(
    await measure('newest 50', () => requests.list({ accountId }, { limit: 50 })),
    await measure('newest 50 that failed', () => requests.list({ accountId, status: [500, 599] }, { limit: 50 })),
    await measure('newest 50 of a key', () =>
      requests.list({ accountId, keyId: `key_${'3'.padStart(24, '0')}` }, { limit: 50 }),
    ),
    await measure('latency by day', () =>
      requests.latencies({ ...window, bucket: 'day', offsets: offsetSpans('Asia/Kolkata', START, END) }),
    ),
    await measure('latency by hour', () =>
      requests.latencies({ ...window, bucket: 'hour', offsets: offsetSpans('UTC', START, END) }),
    ),
  );
  console.log(`slowest ${slowest.toFixed(0)} ms; goal ${GOAL_MS} ms`);
  if (slowest > GOAL_MS) process.exitCode = 1;
} finally {
  await close();
  await rm(directory, { recursive: true, force: true });
}
