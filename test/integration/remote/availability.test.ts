import { describe, expect, it } from 'vitest';
import { answerJson, type FakeHandler, hangUp, startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import {
  collect,
  hello,
  type RemoteBench,
  textOf,
  untilText,
  useRemoteBench,
  WHOLE,
} from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
const { start, upstream, served } = useRemoteBench((started) => {
  bench = started;
});

describe('health', () => {
  it('survives a single failed check', async () => {
    await start({ upstreams: [{ kind: 'vllm' }], model: { healthIntervalMs: 10 } });
    let asked = 0;
    Object.defineProperty(bench.upstreams[0]?.behaviour ?? {}, 'healthStatus', {
      // Asked for twice with each check.
      get: () => (++asked <= 2 ? 503 : 200),
    });
    await expect.poll(() => asked).toBeGreaterThan(6);
    expect(bench.log).toEqual([]);
  });

  it('is checked on the right route for each kind', async () => {
    const kinds = ['openai', 'vllm', 'tei', 'llama-server', 'ollama', 'baobab'] as const;
    await start({
      upstreams: kinds.map((kind) => ({ kind, behaviour: { healthStatus: 503 } })),
      model: { healthIntervalMs: 10 },
    });
    await expect.poll(() => bench.model.health().map((each) => each.healthy)).toEqual(kinds.map(() => false));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable', status: 503 });
    expect(bench.model.regions()).toEqual([]);
    expect(bench.model.health()[0]?.lastError).toContain('503');
    for (const fake of bench.upstreams) fake.behaviour.healthStatus = 200;
    await expect.poll(() => bench.model.health().map((each) => each.healthy)).toEqual(kinds.map(() => true));
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    expect(bench.log.map((line) => line.message)).toEqual(
      expect.arrayContaining(['upstream is down', 'upstream is back']),
    );
  });

  it('keeps requests away from a server that still loads', async () => {
    await start({
      upstreams: [{ kind: 'llama-server', behaviour: { healthStatus: 503 } }, { kind: 'llama-server' }],
      model: { healthIntervalMs: 10 },
    });
    await expect.poll(() => bench.model.health()[0]?.healthy).toBe(false);
    for (let i = 0; i < 4; i++) await collect(bench.chat(hello));
    expect(served()).toEqual([0, 4]);
  });

  it('notices when an upstream stops and comes back', async () => {
    await start({ upstreams: [{}], model: { healthIntervalMs: 10 } });
    const port = Number(new URL(upstream(0).url).port);
    await upstream(0).close();
    await expect.poll(() => bench.model.health()[0]?.healthy).toBe(false);
    bench.upstreams[0] = await startFakeUpstream('openai', {}, port);
    await expect.poll(() => bench.model.health()[0]?.healthy).toBe(true);
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
  });

  it('ends the wait for a server that has stopped', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { healthIntervalMs: 10 },
    });
    const first = await untilText(bench.chat(hello));
    const waiting = expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable' });
    upstream(0).behaviour.healthStatus = 500;
    await waiting;
    await first.return?.();
  });
});

describe('the circuit breaker', () => {
  it('stops calling an upstream that keeps failing, and tries again later', async () => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(...Array.from({ length: 5 }, () => answerJson(500, {})));
    for (let i = 0; i < 5; i++) {
      const failing = collect(bench.chat(hello, { accountId: `acc_${i}` }));
      await expect(failing).rejects.toMatchObject({ code: 'model_unavailable' });
    }
    expect(bench.model.health()[0]?.healthy).toBe(false);
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(upstream(0).requests).toHaveLength(5);
    bench.clock.advance(1_000);
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    expect(bench.model.health()[0]?.healthy).toBe(true);
  });
});

describe('an account whose requests make upstreams fail', () => {
  const poison = { accountId: 'acc_poison' };
  const fail = async (): Promise<void> => {
    await expect(collect(bench.chat(hello, poison))).rejects.toMatchObject({ code: 'model_unavailable' });
  };

  it.each<[string, FakeHandler]>([
    ['500', answerJson(500, { error: { message: 'CUDA error', code: 500 } })],
    ['503', answerJson(503, { error: { message: 'overloaded by this prompt' } })],
    ['403', answerJson(403, { error: { message: 'the filter refused the prompt' } })],
    ['404', answerJson(404, { error: { message: 'no such adapter' } })],
    ['resets', hangUp],
    ['rubbish', (_request, response) => void response.writeHead(200).end('data: <html>\n\n')],
  ])('is paused alone after %s', async (_name, handler) => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(...Array.from({ length: 20 }, () => handler));
    for (let i = 0; i < 8; i++) await fail();
    const tried = upstream(0).requests.length;
    expect(tried).toBeLessThan(10);
    upstream(0).script.length = 0;
    expect(textOf(await collect(bench.chat(hello, { accountId: 'acc_other' })))).toBe(WHOLE);
    expect(bench.model.health()[0]).toMatchObject({
      healthy: true,
      breaker: 'closed',
      problem: expect.stringContaining('requests of one account fail'),
    });
    await expect(collect(bench.chat(hello, poison))).rejects.toThrow('it failed on your last requests');
    bench.clock.advance(1_000);
    expect(textOf(await collect(bench.chat(hello, poison)))).toBe(WHOLE);
    expect(bench.model.health()[0]?.problem).toBeUndefined();
  });

  it('counts at one upstream only for each request', async () => {
    await start({ upstreams: [{}, {}] });
    for (let i = 0; i < 5; i++) {
      for (const fake of bench.upstreams) fake.script.push(answerJson(500, {}));
      await collect(bench.chat(hello, { accountId: `acc_${i}` })).catch(() => undefined);
    }
    expect(served()).toEqual([5, 5]);
    expect(bench.model.health().map(({ healthy }) => healthy)).toEqual([false, true]);
  });

  it('is not the reason where an upstream refuses connections', async () => {
    await start({ upstreams: [{}] });
    await upstream(0).close();
    for (let i = 0; i < 5; i++) await fail();
    expect(bench.model.health()[0]?.healthy).toBe(false);
  });
});

describe('the circuit breaker, half open', () => {
  it('closes with the first bytes of a long stream', async () => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(...Array.from({ length: 5 }, () => answerJson(500, {})));
    for (let i = 0; i < 5; i++) await collect(bench.chat(hello, { accountId: `acc_${i}` })).catch(() => undefined);
    bench.clock.advance(1_000);
    upstream(0).behaviour.stallAfterChunks = 3;
    const long = await untilText(bench.chat(hello));
    upstream(0).behaviour.stallAfterChunks = undefined;
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    await long.return?.();
  });
});
