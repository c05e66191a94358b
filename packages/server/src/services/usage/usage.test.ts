import { bucketIndex } from '@baobab/core/domain/usage-window.ts';
import { ReportTooLongError } from '@baobab/core/ports/store-errors.ts';
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

  it('comes in pages, which read nothing before their first bucket', async () => {
    const first = bucketIndex('day', Date.UTC(2026, 10, 1));
    const { service, asked } = serviceOver(
      [row(first, { model: 'a/b' }), row(first, { model: 'a/c' }), row(first + 1)],
      2,
    );
    const request = { start: '2026-10-01', groupBy: 'model' };
    const page = await service.report('acct_1', { ...request, limit: 1 });
    expect(page.buckets).toHaveLength(1);
    expect(page.next).toEqual({ index: first, names: ['a/b'] });
    expect(page.totals.requests).toBe(1);
    await service.report('acct_1', { ...request, limit: 1, after: page.next });
    expect(asked[1]).toMatchObject({ start: Date.UTC(2026, 10, 1), after: page.next, limit: 2 });
    const pages = service.pages('acct_1', request);
    expect((await pages.next()).value).toMatchObject({ next: { index: first, names: ['a/c'] } });
    await pages.return(undefined);
  });

  it('in pages is that of all its time, and adds up no bucket in many of them', async () => {
    const first = bucketIndex('day', Date.UTC(2026, 9, 1));
    const added: number[] = [];
    const names = ['a', 'b', 'c', 'd', 'e'];
    const rows = Array.from({ length: 30 }, (_, day) =>
      names.slice(0, (day * 7) % 6).map((model) => row(first + day, { model })),
    ).flat();
    const query = async ({ start, end, after, limit }: UsageQuery) => {
      const [from, to] = [bucketIndex('day', start), bucketIndex('day', end - 1)];
      const inTime = rows.filter(({ index }) => index >= from && index <= to);
      added.push(...inTime.map(({ index }) => index));
      const [name = ''] = after?.names ?? [];
      const isAfter = ({ index, model = '' }: UsageRow) =>
        after === undefined || index > after.index || (index === after.index && model > name);
      return inTime.filter(isAfter).slice(0, limit);
    };
    for (const top of [undefined, 5]) {
      added.length = 0;
      const usage = { query, spentNanoUsd: async () => 0n };
      const service = createUsage({ usage, clock: { now: () => NOW }, maxBuckets: 6 });
      const pages = await Array.fromAsync(service.pages('acct_1', { start: '2026-10-01', groupBy: 'model', top }));
      const whole = createUsage({ usage, clock: { now: () => NOW } });
      const { buckets } = await whole.report('acct_1', { start: '2026-10-01', groupBy: 'model' });
      expect(pages.flatMap((page) => page.buckets)).toEqual(buckets);
      // The first page adds up all, the report beside it too.
      expect(added.length).toBeLessThan(5 * rows.length);
    }
  });

  it('of the dearest groups needs groups, and has no pages', async () => {
    const { service } = serviceOver([]);
    const refused = { status: 400, param: 'top' };
    await expect(service.report('acct_1', { start: '2026-11-01', top: 3 })).rejects.toMatchObject(refused);
    const paged = { start: '2026-11-01', groupBy: 'key', top: 3, limit: 5 };
    await expect(service.report('acct_1', paged)).rejects.toMatchObject(refused);
  });

  it('says what to ask for when it takes too long', async () => {
    const usage = {
      query: () => Promise.reject(new ReportTooLongError(30_000)),
      spentNanoUsd: async () => 0n,
    };
    const service = createUsage({ usage, clock: { now: () => NOW } });
    await expect(service.report('acct_1', { start: '2026-11-01' })).rejects.toMatchObject({
      code: 'validation_failed',
      status: 422,
      message:
        'This takes longer than 30 seconds. Ask for a shorter time, a larger bucket or fewer groups, or name an account.',
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
