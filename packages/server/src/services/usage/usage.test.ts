import { bucketIndex } from '@baobab/core/domain/usage-window.ts';
import type { UsageQuery, UsageRow } from '@baobab/core/ports/usage.ts';
import { describe, expect, it } from 'vitest';
import { createUsage } from './usage.ts';

const NOW = Date.UTC(2026, 10, 15, 12);
const row = (index: number, changes: Partial<UsageRow> = {}): UsageRow => ({
  index,
  requests: 1,
  promptTokens: 10,
  completionTokens: 5,
  cacheReadTokens: 2,
  audioSeconds: 0,
  costNanoUsd: 9_007_199_254_740_993n,
  ...changes,
});

function serviceOver(rows: UsageRow[], maxBuckets?: number) {
  const asked: UsageQuery[] = [];
  const usage = {
    query: async (query: UsageQuery) => {
      asked.push(query);
      return rows.slice(0, query.limit);
    },
    spentNanoUsd: async () => 0n,
  };
  return { asked, service: createUsage({ usage, clock: { now: () => NOW }, maxBuckets }) };
}

describe('usage report', () => {
  it('has the boundaries of its buckets, and totals that are their sum', async () => {
    const november = bucketIndex('month', NOW);
    const { service, asked } = serviceOver([row(november - 1, { model: 'a/b' }), row(november, { model: 'a/c' })]);
    const report = await service.report('acct_1', { start: '2026-10-20', bucket: 'month', groupBy: 'model' });
    expect(asked).toMatchObject([
      { accountId: 'acct_1', start: Date.UTC(2026, 9, 20), end: NOW + 1, groupBy: ['model'] },
    ]);
    expect(report.buckets).toMatchObject([
      { start: '2026-10-01T00:00:00.000Z', end: '2026-11-01T00:00:00.000Z', model: 'a/b' },
      { start: '2026-11-01T00:00:00.000Z', end: '2026-12-01T00:00:00.000Z', model: 'a/c' },
    ]);
    expect(report.totals).toEqual({
      requests: 2,
      promptTokens: 20,
      completionTokens: 10,
      cacheReadTokens: 4,
      audioSeconds: 0,
      costNanoUsd: 18_014_398_509_481_986n,
    });
  });

  it('says which window fits when there are too many buckets', async () => {
    const first = bucketIndex('hour', Date.UTC(2026, 10, 1));
    const { service } = serviceOver([row(first), row(first + 1), row(first + 2), row(first + 3)], 3);
    await expect(service.report('acct_1', { start: '2026-11-01', bucket: 'hour' })).rejects.toMatchObject({
      code: 'validation_failed',
      status: 422,
      param: 'end',
      message: expect.stringContaining('from 2026-11-01T00:00:00.000Z to 2026-11-01T03:00:00.000Z fits'),
    });
  });

  it('suggests fewer groups when one bucket alone is too large', async () => {
    const first = bucketIndex('day', Date.UTC(2026, 10, 1));
    const { service } = serviceOver([row(first), row(first), row(first)], 2);
    await expect(service.report('acct_1', { start: '2026-11-01', groupBy: 'key' })).rejects.toMatchObject({
      code: 'validation_failed',
      param: 'groupBy',
    });
  });
});
