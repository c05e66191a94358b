import { afterEach, expect, it } from 'vitest';
import { collect, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

it('one key that fills the queue of an upstream does not get other accounts a 429', async () => {
  bench = await remoteBench({
    upstreams: [{ settings: { maxConcurrency: 2 }, behaviour: { stallAfterChunks: 1 } }],
    model: { queue: { length: 8, timeoutMs: 60_000 } },
  });
  const stop = new AbortController();
  const ask = (accountId: string, signal: AbortSignal) =>
    collect(bench.chat({ prompt: { text: 'hello' } }, { accountId, keyId: accountId, signal })).then(
      () => 'answered',
      (error: { code: string }) => error.code,
    );
  // As many again as there is room for: two run, eight wait, the others are refused.
  const flood = Array.from({ length: 20 }, () => ask('greedy', stop.signal));
  await bench.upstreams[0]?.until(() => bench.upstreams[0]?.requests.length === 2);
  const modest = ['a', 'b', 'c'].map((account) => ask(account, new AbortController().signal));
  for (const upstream of bench.upstreams) upstream.behaviour.stallAfterChunks = undefined;
  stop.abort();
  expect(await Promise.all(modest)).toEqual(['answered', 'answered', 'answered']);
  const codes = await Promise.all(flood);
  expect(codes.filter((code) => code === 'capacity_exceeded')).toHaveLength(13);
});
