import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { ChatEvent, ChatRequest } from '../../../src/engines/engine.ts';
import {
  answerJson,
  type FakeHandler,
  type FakeUpstream,
  hangUp,
  silence,
  startFakeUpstream,
} from '../../fixtures/fake-upstream.ts';
import { type BenchOptions, collect, type RemoteBench, remoteBench } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

const hello: ChatRequest = { prompt: { messages: [{ role: 'user', content: 'Hi' }] } };
const start = async (options: BenchOptions): Promise<void> => {
  bench = await remoteBench(options);
};
const upstream = (index: number): FakeUpstream => {
  const found = bench.upstreams[index];
  if (found === undefined) throw new Error(`no upstream ${index}`);
  return found;
};
const textOf = (events: readonly ChatEvent[]): string =>
  events.flatMap((event) => (event.type === 'text-delta' ? [event.text] : [])).join('');
const served = (): number[] => bench.upstreams.map((each) => each.requests.length);
const WHOLE = 'Hello from the other side.';

/** Reads events up to the first piece of text and hands over the rest. */
async function untilText(events: AsyncIterable<ChatEvent>): Promise<AsyncIterator<ChatEvent>> {
  const iterator = events[Symbol.asyncIterator]();
  for (;;) {
    const { value, done } = await iterator.next();
    if (done === true || value.type === 'text-delta') return iterator;
  }
}

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

describe('after the first text', () => {
  it('a failure is thrown and not retried', async () => {
    await start({ upstreams: [{ behaviour: { cutAfterChunks: 4 } }, {}] });
    const given: ChatEvent[] = [];
    const generation = bench.chat(hello);
    const run = async (): Promise<void> => {
      for await (const event of generation) given.push(event);
    };
    await expect(run()).rejects.toMatchObject({
      code: 'model_unavailable',
      message: expect.stringContaining('broke off'),
    });
    expect(textOf(given)).toBe('Hello from the');
    expect(generation.usageSoFar().completionTokens).toBe(3);
    expect(served()).toEqual([1, 0]);
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('an error event of the upstream ends it with its own code', async () => {
    const text = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' } }] })}\n\n`;
    const error =
      'data: {"error":{"message":"maximum context length is 64 tokens","type":"BadRequestError","code":400}}\n\n';
    await start({ upstreams: [{ behaviour: { rawPieces: [text, error] } }] });
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'context_length_exceeded' });
  });
});

describe('before the first text', () => {
  it('a failure uses no tokens', async () => {
    await start({ upstreams: [{ kind: 'vllm', behaviour: { cutAfterChunks: 1 } }] });
    const generation = bench.chat(hello);
    await expect(collect(generation)).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(generation.usageSoFar()).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
  });

  it('a cancellation uses the prompt tokens', async () => {
    await start({ upstreams: [{ kind: 'vllm', behaviour: { stallAfterChunks: 1 } }] });
    const controller = new AbortController();
    const generation = bench.chat(hello, { signal: controller.signal });
    const outcome = expect(collect(generation)).rejects.toMatchObject({ code: 'client_cancelled' });
    await expect.poll(() => generation.usageSoFar().promptTokens).toBe(9);
    controller.abort();
    await outcome;
    expect(generation.usageSoFar()).toEqual({ promptTokens: 9, completionTokens: 0, cachedTokens: 0 });
  });
});

describe('time limits', () => {
  it('an answer that does not begin is requested from another upstream', async () => {
    await start({ upstreams: [{ settings: { firstByteTimeoutMs: 50 } }, {}] });
    upstream(0).script.push(silence);
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    await upstream(0).until(() => upstream(0).requests[0]?.aborted === true);
  });

  it('no answer from any upstream is 504', async () => {
    await start({ upstreams: [{ settings: { firstByteTimeoutMs: 50 } }] });
    upstream(0).script.push(silence);
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'upstream_timeout', status: 504 });
  });

  it('headers alone do not count as the first byte', async () => {
    await start({ upstreams: [{ settings: { firstByteTimeoutMs: 50 }, behaviour: { stallAfterChunks: 0 } }] });
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'upstream_timeout' });
  });

  it('an answer that does not end is cut at the total limit', async () => {
    await start({ upstreams: [{ settings: { totalTimeoutMs: 80 }, behaviour: { stallAfterChunks: 3 } }] });
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'upstream_timeout' });
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('frees the slot of a consumer that stops reading', async () => {
    await start({
      upstreams: [{ settings: { totalTimeoutMs: 80, maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
    });
    const standing = await untilText(bench.chat(hello));
    await upstream(0).until(() => upstream(0).requests[0]?.aborted === true);
    expect(bench.model.health()[0]?.inFlight).toBe(0);
    await standing.return?.();
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('an upstream that accepts no connection times out', async () => {
    // Reserved for documentation: packets to it go nowhere, or the network refuses it at once.
    await start({ upstreams: [{ settings: { url: 'http://192.0.2.1:9/v1', connectTimeoutMs: 60 } }] });
    await expect(collect(bench.chat(hello))).rejects.toSatisfy((error: { code: string }) =>
      ['upstream_timeout', 'model_unavailable'].includes(error.code),
    );
  });
});

describe('a cancelled request', () => {
  it('closes the connection to the upstream at once, even if the consumer has stopped reading', async () => {
    await start({ upstreams: [{ behaviour: { stallAfterChunks: 3 } }] });
    const controller = new AbortController();
    const generation = bench.chat(hello, { signal: controller.signal });
    const rest = await untilText(generation);
    controller.abort();
    await upstream(0).until(() => upstream(0).requests[0]?.aborted === true);
    expect(bench.model.health()[0]).toMatchObject({ inFlight: 0, healthy: true });
    // What had arrived already may still be read.
    await expect(
      (async () => {
        while ((await rest.next()).done !== true);
      })(),
    ).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(generation.usageSoFar().completionTokens).toBeGreaterThan(0);
  });

  it('closes it when the consumer returns early', async () => {
    await start({ upstreams: [{ behaviour: { stallAfterChunks: 3 } }] });
    const rest = await untilText(bench.chat(hello));
    await rest.return?.();
    await upstream(0).until(() => upstream(0).requests[0]?.aborted === true);
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('stops while it waits for the first byte', async () => {
    await start({ upstreams: [{}] });
    upstream(0).script.push(silence);
    const controller = new AbortController();
    const outcome = expect(collect(bench.chat(hello, { signal: controller.signal }))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    await upstream(0).until(() => upstream(0).requests.length === 1);
    controller.abort();
    await outcome;
    await upstream(0).until(() => upstream(0).requests[0]?.aborted === true);
  });

  it('leaves no connection open, a hundred times', async () => {
    await start({ upstreams: [{ behaviour: { stallAfterChunks: 3 } }] });
    await Promise.all(
      Array.from({ length: 100 }, async () => {
        const controller = new AbortController();
        const rest = await untilText(bench.chat(hello, { signal: controller.signal }));
        controller.abort();
        await rest.return?.();
      }),
    );
    await upstream(0).until(
      () => upstream(0).requests.every((request) => request.aborted) && upstream(0).connections() <= 1,
    );
    expect(bench.model.health()[0]?.inFlight).toBe(0);
    upstream(0).behaviour.stallAfterChunks = undefined;
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
  });
});

describe('slots', () => {
  it('are waited for, and a full queue answers 429', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { queue: { places: 1, timeoutMs: 60_000 } },
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

  it('are waited for until the timeout', async () => {
    await start({
      upstreams: [{ settings: { maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
      model: { queue: { places: 5, timeoutMs: 30 } },
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
    expect(await bench.model.countTokens('one two three')).toBe(5);
    await first.return?.();
  });
});

describe('a slow reader', () => {
  it('slows its upstream down instead of filling the memory', async () => {
    const piece = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(64 * 1024) } }] })}\n\n`;
    await start({ upstreams: [{ behaviour: { rawPieces: Array.from({ length: 2_000 }, () => piece) } }] });
    const rest = await untilText(bench.chat(hello));
    // 128 MB are on offer; what is not read stays in the sockets' own buffers, a few MB.
    const allSent = upstream(0)
      .until(() => upstream(0).sentChunks() >= 1_000)
      .then(() => 'all sent');
    expect(await Promise.race([allSent, pause(300, 'held back')])).toBe('held back');
    await rest.return?.();
  });
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

describe('regions', () => {
  const twoRegions: BenchOptions = {
    upstreams: [{ settings: { region: 'kgl' } }, { settings: { region: 'fra' } }, {}],
  };

  it('are those with a healthy upstream', async () => {
    await start(twoRegions);
    expect(bench.model.regions()).toEqual(['kgl', 'fra', 'local']);
  });

  it('pin a call', async () => {
    await start(twoRegions);
    for (let i = 0; i < 3; i++) {
      const generation = bench.model.inRegion('fra').chat?.generate(hello, bench.context());
      expect(generation).toBeDefined();
      if (generation === undefined) return;
      await collect(generation);
      expect(generation.servedRegion()).toBe('fra');
    }
    expect(served()).toEqual([0, 3, 0]);
  });

  it('answer 409 where the model is not served now', async () => {
    await start({ ...twoRegions, model: { healthIntervalMs: 10 } });
    expect(() => bench.model.inRegion('mars')).toThrow(/served in: kgl, fra, local/);
    upstream(1).behaviour.healthStatus = 500;
    await expect.poll(() => bench.model.regions()).toEqual(['kgl', 'local']);
    const generation = bench.model.inRegion('fra').chat?.generate(hello, bench.context());
    if (generation === undefined) throw new Error('not a chat model');
    await expect(collect(generation)).rejects.toMatchObject({ code: 'region_unavailable', status: 409 });
  });

  it('do not fail over to another one', async () => {
    await start(twoRegions);
    upstream(1).script.push(answerJson(500, {}));
    const generation = bench.model.inRegion('fra').chat?.generate(hello, bench.context());
    if (generation === undefined) throw new Error('not a chat model');
    await expect(collect(generation)).rejects.toMatchObject({ code: 'model_unavailable' });
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
