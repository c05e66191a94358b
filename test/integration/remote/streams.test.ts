import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ChatEvent } from '../../../packages/core/src/engine/engine.ts';
import { silence } from '../../fixtures/fake-upstream.ts';
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

describe('an error event of the upstream in the same read as text', () => {
  const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const error = 'data: {"error":{"message":"the engine has died","type":"InternalServerError","code":500}}\n\n';

  it.each([
    ['reported', error],
    ['malformed', 'data: {oh\n\n'],
  ])('comes after that text, which is used: %s', async (_name, broken) => {
    await start({ upstreams: [{}] });
    const { promise: hasBegun, resolve: begin } = Promise.withResolvers<void>();
    upstream(0).script.push(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(chunk('Hello'));
      await hasBegun;
      response.end(`${chunk(' there')}${broken}`);
    });
    const given: ChatEvent[] = [];
    const generation = bench.chat(hello);
    const run = async (): Promise<void> => {
      for await (const event of generation) {
        given.push(event);
        if (event.type === 'text-delta') begin();
      }
    };
    await expect(run()).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(textOf(given)).toBe('Hello there');
    expect(generation.usageSoFar().completionTokens).toBe(2);
    expect(bench.model.health()[0]?.inFlight).toBe(0);
  });

  it('lets another upstream answer if nothing was handed over yet', async () => {
    const rawPieces = [`${chunk('Hello')}${chunk(' there')}${error}`];
    await start({ upstreams: [{ behaviour: { rawPieces } }, {}] });
    expect(textOf(await collect(bench.chat(hello)))).toBe(WHOLE);
    expect(served()).toEqual([1, 1]);
  });
});

describe('an answer that the engine cannot parse', () => {
  const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
  const message = 'The model produced output that does not match the expected peg-native format';
  const error = `data: ${JSON.stringify({ error: { code: 500, message, type: 'server_error' } })}\n\n`;
  const told = `The model 'acme/model' wrote an answer that its engine cannot parse: ${message}.`;

  it.each([
    [false, told],
    [true, `${told} It wrote: <call>{oh`],
  ])(
    'names the cause and quotes the text, unless the client has it already (whole answer: %s)',
    async (wholeAnswer, expected) => {
      await start({
        upstreams: [{ kind: 'llama-server', behaviour: { rawPieces: [chunk('<call>'), chunk('{oh'), error] } }],
      });
      const given: ChatEvent[] = [];
      const run = async (): Promise<void> => {
        for await (const event of bench.chat({ ...hello, wholeAnswer })) given.push(event);
      };
      await expect(run()).rejects.toMatchObject({ code: 'model_unavailable', message: expected, summary: told });
      expect(textOf(given)).toBe('<call>{oh');
      expect(bench.model.health()).toMatchObject([{ healthy: true, problem: undefined }]);
    },
  );
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
    let waitMs = 1;
    const cancelled = async () => {
      const controller = new AbortController();
      const generation = bench.chat(hello, { signal: controller.signal });
      const outcome = expect(collect(generation)).rejects.toMatchObject({ code: 'client_cancelled' });
      await pause(waitMs);
      waitMs *= 2;
      controller.abort();
      await outcome;
      return generation.usageSoFar();
    };
    // Until the chunk that counts the prompt came before the cancellation.
    await expect.poll(cancelled).toEqual({ promptTokens: 9, completionTokens: 0, cachedTokens: 0 });
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
      upstreams: [{ settings: { totalTimeoutMs: 1_000, maxConcurrency: 1 }, behaviour: { stallAfterChunks: 3 } }],
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

describe('a slow reader', () => {
  it('slows its upstream down instead of filling the memory', async () => {
    const piece = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(64 * 1024) } }] })}\n\n`;
    await start({ upstreams: [{ behaviour: { rawPieces: Array.from({ length: 2_000 }, () => piece) } }] });
    const rest = await untilText(bench.chat(hello));
    const source = upstream(0);
    // 128 MB are on offer; what is not read stays in the sockets' own buffers, a few MB.
    const allSent = source.until(() => source.sentChunks() >= 1_000).then(() => 'all sent');
    expect(await Promise.race([allSent, pause(300, 'held back')])).toBe('held back');
    await rest.return?.();
  });
});
