import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { latencyBin } from '../../packages/core/src/domain/latency.ts';
import { offsetSpans } from '../../packages/core/src/domain/time/time-zone.ts';
import type { RequestEntry, RequestFilter, RequestLog } from '../../packages/core/src/ports/request-log.ts';

export interface RequestLogUnderTest {
  requests: RequestLog;
  close(): Promise<void>;
}

const START = Date.UTC(2026, 10, 1);
const HOUR = 3_600_000;

export const requestEntry = (id: string, changes: Partial<RequestEntry> = {}): RequestEntry => ({
  id,
  time: START,
  accountId: 'acct_1',
  keyId: 'key_1',
  endpoint: '/v1/embeddings',
  model: 'acme/embed',
  version: '2026-01-31',
  region: 'local',
  status: 200,
  code: null,
  message: null,
  promptTokens: 3,
  completionTokens: 0,
  cacheReadTokens: 1,
  audioSeconds: 0,
  costNanoUsd: 16_000,
  durationMs: 120,
  firstTokenMs: null,
  replayed: false,
  attempts: [],
  ...changes,
});

/** Every store of requests behaves like this. */
export function requestLogContract(name: string, open: () => Promise<RequestLogUnderTest>): void {
  describe(`request log: ${name}`, () => {
    let store: RequestLogUnderTest;
    const attempts = [
      { upstream: 'one:80', region: 'eu', outcome: 'timeout', durationMs: 5, detail: 'no first byte of “ü”' },
      { upstream: 'two:80', region: 'local', outcome: 'ok', durationMs: 7, detail: null },
    ];
    const entries = [
      requestEntry('req_a', { attempts }),
      requestEntry('req_b', {
        time: START + HOUR,
        keyId: 'key_2',
        status: 429,
        code: 'rpm_exceeded',
        message: 'Too fast.',
        region: null,
      }),
      requestEntry('req_c', { time: START + HOUR, model: null, version: null, region: null, status: 404 }),
      requestEntry('req_d', { time: START + 2 * HOUR, firstTokenMs: 40, endpoint: '/v1/chat/completions' }),
      requestEntry('req_e', { time: START + 3 * HOUR, accountId: 'acct_2', status: 503, durationMs: 9_000 }),
      requestEntry('req_f', { time: START + 26 * HOUR, replayed: true }),
    ];
    const append = (added: readonly RequestEntry[]) => {
      const group = store.requests.collect();
      for (const entry of added) group.add(entry);
      expect(group.size).toBe(added.length);
      return group.store();
    };
    beforeAll(async () => {
      store = await open();
      await append(entries.slice(0, 4));
      // A repeated write adds nothing. The series of some are known now.
      await append(entries);
    });
    afterAll(() => store.close());

    const ids = async (filter: RequestFilter, limit = 100) =>
      (await store.requests.list(filter, { limit })).map(({ id }) => id);

    it('gives back what was stored, the newest first', async () => {
      expect(await store.requests.list({}, { limit: 100 })).toEqual(entries.toReversed());
    });

    it('pages by time and id', async () => {
      const found: string[] = [];
      for (let before: { time: number; id: string } | undefined; ; ) {
        const [entry] = await store.requests.list({ accountId: 'acct_1' }, { limit: 1, before });
        if (entry === undefined) break;
        found.push(entry.id);
        before = entry;
      }
      expect(found).toEqual(['req_f', 'req_d', 'req_c', 'req_b', 'req_a']);
    });

    it('filters', async () => {
      expect(await ids({ accountId: 'acct_2' })).toEqual(['req_e']);
      expect(await ids({ status: [400, 599] })).toEqual(['req_e', 'req_c', 'req_b']);
      expect(await ids({ accountId: 'acct_1', status: [429, 429] })).toEqual(['req_b']);
      expect(await ids({ accountId: 'acct_1', status: [200, 200] })).toEqual(['req_f', 'req_d', 'req_a']);
      expect(await ids({ keyId: 'key_2' })).toEqual(['req_b']);
      expect(await ids({ model: 'acme/embed', region: 'local', accountId: 'acct_1' })).toEqual([
        'req_f',
        'req_d',
        'req_a',
      ]);
      expect(await ids({ endpoint: '/v1/chat/completions' })).toEqual(['req_d']);
      expect(await ids({ start: START + HOUR, end: START + 2 * HOUR })).toEqual(['req_c', 'req_b']);
      expect(await ids({ id: 'req_e' })).toEqual(['req_e']);
      expect(await ids({ id: 'req_e', accountId: 'acct_1' })).toEqual([]);
    });

    it('counts latencies by the days of a time zone', async () => {
      const query = { start: START, end: START + 48 * HOUR, bucket: 'day' as const };
      const day = START / (24 * HOUR);
      const bin = latencyBin(120);
      const utc = await store.requests.latencies({
        ...query,
        accountId: 'acct_1',
        offsets: offsetSpans('UTC', query.start, query.end),
      });
      const sorted = utc.durations.sort((one, other) => one.bucket - other.bucket || one.status - other.status);
      expect(sorted).toEqual([
        { bucket: day, status: 200, bin, count: 2 },
        { bucket: day, status: 404, bin, count: 1 },
        { bucket: day, status: 429, bin, count: 1 },
        { bucket: day + 1, status: 200, bin, count: 1 },
      ]);
      expect(utc.firstTokens).toEqual([{ bucket: day, bin: latencyBin(40), count: 1 }]);
      const { durations } = await store.requests.latencies({
        ...query,
        model: 'acme/embed',
        keyId: 'key_1',
        offsets: offsetSpans('America/New_York', query.start, query.end),
      });
      // On this day the clocks of New York go back. It is four hours behind UTC until 6:00, and then five.
      const counts = durations.map(({ bucket, status, count }) => [bucket - day, status, count]);
      expect(counts.sort()).toEqual([
        [-1, 200, 2],
        [-1, 503, 1],
        [0, 200, 1],
      ]);
    });

    it('removes what is old, and what an account has too much', async () => {
      expect(await store.requests.removeOlder(START + 1)).toBe(1);
      expect(await store.requests.removeOlder(START + 1)).toBe(0);
      expect(await store.requests.removeBeyond('acct_1', 2)).toBe(2);
      expect(await store.requests.removeBeyond('acct_1', 2)).toBe(0);
      expect(await ids({})).toEqual(['req_f', 'req_e', 'req_d']);
    });
  });
}
