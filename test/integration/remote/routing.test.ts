import { describe, expect, it } from 'vitest';
import { pulled } from '../../../packages/core/src/engine/testing/pulled-generation.ts';
import { answerJson, type FakeHandler, hangUp } from '../../fixtures/fake-upstream.ts';
import {
  type BenchOptions,
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

describe('several upstreams', () => {
  it('take turns when they are equally loaded', async () => {
    await start({ upstreams: [{}, {}, {}] });
    for (let i = 0; i < 6; i++) await collect(bench.chat(hello));
    expect(served()).toEqual([2, 2, 2]);
  });

  it('are chosen by load', async () => {
    await start({ upstreams: [{ settings: { maxConcurrency: 10 } }, { settings: { maxConcurrency: 30 } }] });
    for (const fake of bench.upstreams) fake.behaviour.stallAfterChunks = 3;
    const open = await Promise.all(Array.from({ length: 20 }, () => untilText(bench.chat(hello))));
    expect(bench.model.health().map((each) => each.inFlight)).toEqual([5, 15]);
    await Promise.all(open.map((iterator) => iterator.return?.()));
    expect(bench.model.health().map((each) => each.inFlight)).toEqual([0, 0]);
  });

  it.each<[string, FakeHandler]>([
    ['a hang-up', hangUp],
    ['500', answerJson(500, { error: { message: 'CUDA error', type: 'InternalServerError', code: 500 } })],
    [
      '503 while loading',
      answerJson(503, { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }),
    ],
    ['429 when busy', answerJson(429, { error: 'Model is overloaded', error_type: 'Overloaded' })],
    ['401 of ours', answerJson(401, { error: 'Unauthorized' })],
    [
      '404 of ours',
      answerJson(404, { error: { message: 'The model `x` does not exist.', type: 'NotFoundError', code: 404 } }),
    ],
    [
      'an error as its first event',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.end('data: {"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}\n\n');
      },
    ],
    [
      'an end before any text',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
      },
    ],
    [
      'rubbish',
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: <html>\n\n');
      },
    ],
  ])('take over from each other after %s', async (_name, failure) => {
    await start({ upstreams: [{}, {}] });
    upstream(0).script.push(failure, failure);
    const events = await collect(bench.chat(hello));
    expect(textOf(events)).toBe(WHOLE);
    expect(events.filter((event) => event.type === 'start')).toHaveLength(1);
    expect(upstream(1).requests).toHaveLength(1);
  });

  it('take over when one cannot be reached', async () => {
    await start({ upstreams: [{}, {}] });
    await upstream(0).close();
    for (let i = 0; i < 5; i++) expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
  });

  it('are tried at most three for one request', async () => {
    await start({ upstreams: [{}, {}, {}, {}, {}] });
    for (const fake of bench.upstreams) fake.script.push(answerJson(500, {}));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(served().reduce((a, b) => a + b)).toBe(3);
  });

  it('are not tried after one has refused the request', async () => {
    await start({ upstreams: [{}, {}] });
    upstream(0).script.push(answerJson(400, { error: { message: 'bad top_p', param: 'top_p', code: 400 } }));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({
      code: 'invalid_parameter',
      status: 400,
      param: 'top_p',
    });
    expect(served()).toEqual([1, 0]);
  });

  it('that are all busy cause 429 with their Retry-After', async () => {
    await start({ upstreams: [{}, {}] });
    for (const fake of bench.upstreams) fake.script.push(answerJson(429, { error: 'busy' }, { 'retry-after': '7' }));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({
      code: 'capacity_exceeded',
      status: 429,
      retryAfterSeconds: 7,
    });
    expect(bench.model.health().every((each) => each.healthy)).toBe(true);
  });
});

describe('one upstream', () => {
  it('gets a second try after a reset, which kept-alive connections may cause', async () => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(hangUp);
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    upstream(0).script.push(hangUp, hangUp);
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable' });
  });

  it('keeps its connection between requests', async () => {
    await start({ upstreams: [{}] });
    for (let i = 0; i < 5; i++) await collect(bench.chat(hello));
    // One for the health check at the start, one for the requests.
    expect(upstream(0).connections()).toBeLessThanOrEqual(2);
  });

  it('is hidden in errors, but not in the log', async () => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(answerJson(403, { error: 'key sk-123 refused by gpu-7.internal' }));
    const error = await collect(bench.chat(hello)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'model_unavailable', status: 503 });
    expect(String(error)).not.toMatch(/gpu-7|sk-123|127\.0\.0\.1/);
    expect(JSON.stringify(bench.log)).toContain('gpu-7.internal');
    expect(bench.model.health()[0]?.lastError).toContain('gpu-7.internal');
  });
});

describe('slots', () => {
  it('are waited for, and a full queue answers 429', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { queue: { length: 1, timeoutMs: 60_000 } },
    });
    const first = await untilText(bench.chat(hello));
    const waiting = untilText(bench.chat(hello));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'capacity_exceeded', status: 429 });
    expect(upstream(0).requests).toHaveLength(1);
    await first.return?.();
    const second = await waiting;
    expect(upstream(0).requests).toHaveLength(2);
    await second.return?.();
  });

  it('that are all taken cause a Retry-After that says when they are likely to be free', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { queue: { length: 1, timeoutMs: 60_000 } },
    });
    const first = await untilText(bench.chat(hello));
    const waiting = untilText(bench.chat(hello));
    bench.clock.advance(41_000);
    await first.return?.();
    const second = await waiting;
    const third = untilText(bench.chat(hello));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({
      code: 'capacity_exceeded',
      // Two before it, and an answer takes 6 s: the average so far of 1 s moved by one eighth towards 41 s.
      retryAfterSeconds: 12,
    });
    await second.return?.();
    await (await third).return?.();
  });

  it('are waited for until the timeout', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { queue: { length: 5, timeoutMs: 30 } },
    });
    const first = await untilText(bench.chat(hello));
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'upstream_timeout' });
    await first.return?.();
  });
});

describe('counting tokens', () => {
  it('needs no slot', async () => {
    await start({
      upstreams: [{ kind: 'vllm', settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
    });
    const first = await untilText(bench.chat(hello));
    expect(await bench.engine().countTokens('one two three')).toBe(5);
    await first.return?.();
  });
});

describe('regions', () => {
  const twoRegions: BenchOptions = {
    upstreams: [{ settings: { region: 'kgl' } }, { settings: { region: 'fra' } }, {}],
  };

  const inRegion = (region: string) => pulled(bench.engine(region).chat, hello, bench.context());

  it('are those with a healthy upstream', async () => {
    await start(twoRegions);
    expect(bench.model.regions()).toEqual(['kgl', 'fra', 'local']);
  });

  it('pin a call', async () => {
    await start(twoRegions);
    for (let i = 0; i < 3; i++) {
      const generation = inRegion('fra');
      await collect(generation);
      expect(generation.servedRegion()).toBe('fra');
    }
    expect(served()).toEqual([0, 3, 0]);
  });

  it('answer 409 where the model is not served now', async () => {
    await start({ ...twoRegions, model: { healthIntervalMs: 10 } });
    expect(() => bench.engine('mars')).toThrow(/served in: kgl, fra, local/);
    upstream(1).behaviour.healthStatus = 500;
    await expect.poll(() => bench.model.regions()).toEqual(['kgl', 'local']);
    await expect(collect(inRegion('fra'))).rejects.toMatchObject({ code: 'region_unavailable', status: 409 });
  });

  it('do not fail over to another one', async () => {
    await start(twoRegions);
    upstream(1).script.push(answerJson(500, {}));
    await expect(collect(inRegion('fra'))).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(served()).toEqual([0, 1, 0]);
  });
});

describe('disposal', () => {
  it('stops the checks and closes every connection', async () => {
    await start({ upstreams: [{}], model: { healthIntervalMs: 10 } });
    await collect(bench.chat(hello));
    await bench.model[Symbol.asyncDispose]();
    await upstream(0).until(() => upstream(0).connections() === 0);
  });
});

describe('conversations at several upstreams', () => {
  const conversation = (name: string) => ({
    prompt: { messages: [{ role: 'user' as const, content: `${name}: ${'a long start '.repeat(100)}` }] },
  });

  it('stay at the upstream whose prefix cache has their start', async () => {
    await start({ upstreams: [{}, {}, {}], model: { contextLength: 4_096 } });
    for (let i = 0; i < 5; i++) await collect(bench.chat(conversation('one')));
    expect(served().toSorted()).toEqual([0, 0, 5]);
    for (let i = 0; i < 30; i++) await collect(bench.chat(conversation(`conversation ${i}`)));
    expect(served().every((count) => count > 3)).toBe(true);
  });

  it('go elsewhere when that one has more than its share or is down', async () => {
    await start({ upstreams: [{}, {}], model: { contextLength: 4_096 } });
    for (const fake of bench.upstreams) fake.behaviour.stallAfterChunks = 3;
    const open = await Promise.all(Array.from({ length: 10 }, () => untilText(bench.chat(conversation('one')))));
    const inFlight = bench.model.health().map((each) => each.inFlight);
    expect(Math.max(...inFlight)).toBeLessThanOrEqual(7);
    expect(Math.min(...inFlight)).toBeGreaterThanOrEqual(3);
    await Promise.all(open.map((iterator) => iterator.return?.()));
  });
});

describe('retries', () => {
  it('are bounded to a share of the requests when every upstream fails', async () => {
    await start({ upstreams: [{}, {}] });
    const failure = answerJson(429, { error: 'Model is overloaded', error_type: 'Overloaded' });
    for (const fake of bench.upstreams) fake.script.push(...Array.from({ length: 500 }, () => failure));
    const requests = 100;
    for (let i = 0; i < requests; i++) await collect(bench.chat(hello)).catch(() => {});
    const sent = served().reduce((sum, count) => sum + count, 0);
    expect(sent).toBeGreaterThan(requests);
    expect(sent).toBeLessThanOrEqual(requests + 20 + requests * 0.2);
  });

  it('take nothing from that share after the last attempt', async () => {
    await start({ upstreams: [{}, {}, {}] });
    const failure = answerJson(429, { error: 'Model is overloaded', error_type: 'Overloaded' });
    for (const fake of bench.upstreams) fake.script.push(...Array.from({ length: 50 }, () => failure));
    const requests = 10;
    for (let i = 0; i < requests; i++) await collect(bench.chat(hello)).catch(() => {});
    expect(served().reduce((sum, count) => sum + count, 0)).toBe(requests * 3);
  });
});
