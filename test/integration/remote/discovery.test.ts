import { afterEach, describe, expect, it } from 'vitest';
import type { Resolver } from '../../../packages/server/src/upstreams/routing/discovery.ts';
import { type FakeUpstream, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { collect, hello, type RemoteBench, remoteBench, untilText } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench | undefined;
const fakes: FakeUpstream[] = [];
afterEach(async () => {
  await bench?.close();
  bench = undefined;
  await Promise.all(fakes.splice(0).map((fake) => fake.close()));
});

async function fake(): Promise<FakeUpstream> {
  const started = await startFakeUpstream('openai');
  fakes.push(started);
  return started;
}

const portOf = ({ url }: FakeUpstream) => Number(new URL(url).port);
const addresses = () => bench?.model.health().map(({ address }) => address);

describe('upstreams that DNS names', () => {
  it('are the addresses of a host, reached under its name', async () => {
    const only = await fake();
    const asked: string[] = [];
    const resolver: Resolver = {
      async addresses(host) {
        asked.push(host);
        return ['127.0.0.1', '127.0.0.1'];
      },
      services: () => Promise.reject(new Error('not asked')),
    };
    bench = await remoteBench({
      upstreams: [],
      model: {
        resolver,
        upstreams: [{ ...SETTINGS, url: `http://pool.test:${portOf(only)}/v1`, discover: 'dns' }],
      },
    });
    await expect.poll(addresses).toEqual([`127.0.0.1:${portOf(only)}`]);
    await collect(bench.chat(hello));
    expect(asked).toContain('pool.test');
    expect(only.requests.at(-1)?.headers.host).toBe(`pool.test:${portOf(only)}`);
  });

  it('join and leave while requests run, and stay when DNS fails', async () => {
    const [one, two] = [await fake(), await fake()];
    one.behaviour.stallAfterChunks = 3;
    let targets = [one];
    let isDown = false;
    const resolver: Resolver = {
      addresses: () => Promise.reject(new Error('not asked')),
      async services() {
        if (isDown) throw new Error('queryRefused');
        const standBy = { name: '192.0.2.1', port: 1, priority: 20, weight: 0 };
        const used = targets.map((each) => ({ name: '127.0.0.1', port: portOf(each), priority: 10, weight: 1 }));
        return [...used, standBy];
      },
    };
    bench = await remoteBench({
      upstreams: [],
      model: {
        resolver,
        discoveryIntervalMs: 10,
        upstreams: [{ ...SETTINGS, url: 'http://_http._tcp.pool.test/v1', discover: 'srv' }],
      },
    });
    await expect.poll(addresses).toEqual([`127.0.0.1:${portOf(one)}`]);
    const running = await untilText(bench.chat(hello));

    targets = [two];
    await expect.poll(addresses).toEqual([`127.0.0.1:${portOf(two)}`]);
    await collect(bench.chat(hello));
    expect(two.requests.length).toBeGreaterThan(0);
    // The request at the upstream that left goes on.
    one.behaviour.stallAfterChunks = undefined;
    await running.return?.();

    isDown = true;
    await expect.poll(() => bench?.log.map(({ message }) => message)).toContain('failed to look up upstreams');
    expect(addresses()).toEqual([`127.0.0.1:${portOf(two)}`]);
  });
});

const SETTINGS = {
  model: 'acme/model',
  kind: 'openai' as const,
  name: 'upstream-model',
  maxConcurrency: 64,
  connectTimeoutMs: 60_000,
  firstByteTimeoutMs: 60_000,
  totalTimeoutMs: 120_000,
};
