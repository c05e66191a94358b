import { expect, it } from 'vitest';
import { usageToCsv } from './csv.ts';
import { isCsvWanted } from './route.ts';

const sums = {
  requests: 2,
  promptTokens: 30,
  completionTokens: 4,
  cacheReadTokens: 0,
  audioSeconds: 0,
  costNanoUsd: 1_000_000_016n,
};
const times = { index: 0, start: '2026-11-01T00:00:00.000Z', end: '2026-11-02T00:00:00.000Z' };

it('writes one line for each bucket, exact to the nano-dollar', () => {
  const csv = usageToCsv({
    window: { start: 0, end: 1, bucket: 'day', groupBy: ['model', 'key'] },
    buckets: [{ ...times, model: 'acme/one', keyId: 'key_1', keyName: 'a "b", c', ...sums }],
  });
  expect(csv).toBe(
    'start,end,model,key,key_name,requests,prompt_tokens,completion_tokens,cache_read_tokens,audio_seconds,cost_usd\r\n' +
      '2026-11-01T00:00:00.000Z,2026-11-02T00:00:00.000Z,acme/one,key_1,"a ""b"", c",2,30,4,0,0,1.000000016\r\n',
  );
});

it('keeps spreadsheets from running a name as a formula', () => {
  const window = { start: 0, end: 1, bucket: 'day' as const, groupBy: ['key' as const] };
  const buckets = [{ ...times, keyId: 'key_1', keyName: '=cmd()', ...sums }];
  expect(usageToCsv({ window, buckets })).toContain(",'=cmd(),");
});

it('is sent when it is asked for', () => {
  expect(isCsvWanted('csv', 'application/json')).toBe(true);
  expect(isCsvWanted('json', 'text/csv')).toBe(false);
  expect(isCsvWanted(undefined, 'text/csv')).toBe(true);
  expect(isCsvWanted(undefined, '*/*')).toBe(false);
});
