import { describe, expect, it } from 'vitest';
import { pulled } from '../../../packages/core/src/engine/testing/pulled-generation.ts';
import { vectorOf } from '../../fixtures/drivers/scripted.ts';
import { CHAT, callContext, capability, embed, engineBed, testModel, until, use } from '../../fixtures/engine-bed.ts';

describe('calls through an engine process', () => {
  it('bring every vector back bit by bit and in order, also when the request is split over processes', async () => {
    await using bed = engineBed();
    const inputs = Array.from({ length: 2_048 }, (_, index) => 'x'.repeat(index % 97));
    const result = await bed.embed(inputs);
    expect(result.dimensions).toBe(384);
    expect(result.tokens).toEqual(inputs.map((input) => input.length));
    expect(result.vectors).toEqual(Float32Array.from(inputs.flatMap((input) => vectorOf(input, 384))));
  });

  it('carry token ids, texts of all scripts and samples', async () => {
    await using bed = engineBed();
    const context = callContext();
    await use(bed.registry, { model: bed.model, context }, async (engine) => {
      const mixed = await capability(engine.embedding).embed({ inputs: [[1, 2, 3], 'Ẹ káàárọ̀ 🦁'] }, context);
      expect(mixed.tokens).toEqual([3, 'Ẹ káàárọ̀ 🦁'.length]);
      expect(await engine.countTokens('日本語')).toBe(3);
      const samples = Float32Array.from({ length: 480_000 }, (_, index) => index / 480_000);
      const { segments, language } = await capability(engine.transcription).transcribe(
        { samples: samples.subarray(1), language: 'sw' },
        context,
      );
      expect(language).toBe('sw');
      expect(segments[0]?.text).toBe(`479999 samples, last ${samples.at(-1)}`);
    });
  });

  it('count the query of a split rerank once', async () => {
    await using bed = engineBed();
    const context = callContext();
    const documents = Array.from({ length: 200 }, (_, index) => 'd'.repeat(index + 1));
    const result = await use(bed.registry, { model: bed.model, context }, (engine) =>
      capability(engine.rerank).rerank({ query: 'what', documents }, context),
    );
    expect(result.tokens).toBe(4 + (200 * 201) / 2);
    expect(result.scores).toEqual(Float32Array.from(documents, ({ length }) => length / (length + 4)));
  });

  it('carry client errors with their code and the place of the input in the whole request', async () => {
    await using bed = engineBed();
    const inputs = Array(200).fill('fine');
    inputs[150] = 'refuse';
    await expect(bed.embed(inputs)).rejects.toMatchObject({
      code: 'context_length_exceeded',
      status: 422,
      param: 'inputs[150]',
      message: expect.stringContaining("your 'inputs[150]' resulted in 600 tokens"),
    });
    expect(await bed.embed(['still there'])).toMatchObject({ tokens: [11] });
  });

  it('end at once when the client leaves, in the engine too', async () => {
    await using bed = engineBed({ processes: 1 });
    const client = new AbortController();
    const gone = expect(bed.embed(['slow:60000'], callContext({ signal: client.signal }))).rejects.toMatchObject({
      code: 'client_cancelled',
    });
    await until(async () => (await bed.registry.list())[0]?.inFlight === 1);
    client.abort();
    await gone;
    expect((await bed.registry.list())[0]).toMatchObject({ inFlight: 0 });
    expect(await bed.embed(['next'])).toMatchObject({ tokens: [4] });
  });

  it('do not see the secrets of the server, and what they print is logged', async () => {
    await using bed = engineBed();
    await bed.embed(['print:to the log']);
    await until(() => bed.logged.some((line) => line.startsWith('engine: to the log')));
    const [pid] = await bed.pids();
    const { readFileSync } = await import('node:fs');
    const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
    expect(pairs).toContain('ORT_DISABLE_TELEMETRY=1');
    for (const pair of pairs)
      expect(pair).toMatch(/^(ORT_DISABLE_TELEMETRY=1|(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH|CUDA_.*)=.*|)$/s);
  });
});

describe('streams', () => {
  const chat = testModel('test/chat', CHAT);

  it('give all events in order and the usage', async () => {
    await using bed = engineBed();
    using lease = await bed.registry.acquire(chat, callContext());
    const generation = pulled(lease.engine.chat, { prompt: { text: 'count:1000' } }, callContext());
    let text = '';
    for await (const event of generation) if (event.type === 'text-delta') text += event.text;
    expect(text).toBe(Array.from({ length: 1_000 }, (_, n) => `${n} `).join(''));
    expect(generation.usageSoFar()).toEqual({ promptTokens: 10, completionTokens: 1_000, cachedTokens: 0 });
  });

  it('take prompts of millions of characters', async () => {
    await using bed = engineBed();
    using lease = await bed.registry.acquire(chat, callContext());
    const text = `count:3${' '.repeat(2_500_000)}`;
    const generation = pulled(lease.engine.chat, { prompt: { text } }, callContext());
    const events = await Array.fromAsync(generation);
    expect(events[0]).toEqual({ type: 'start', promptTokens: text.length, cachedTokens: 0 });
    expect(generation.usageSoFar()).toMatchObject({ completionTokens: 3 });
  });

  it('pause the engine when the consumer does not read, without stalling others', async () => {
    await using bed = engineBed();
    const slow = await bed.registry.acquire(chat, callContext());
    const generation = pulled(slow.engine.chat, { prompt: { text: 'count:100000' } }, callContext());
    const reader = generation[Symbol.asyncIterator]();
    await reader.next();
    using lease = await bed.registry.acquire(chat, callContext());
    const other = pulled(lease.engine.chat, { prompt: { text: 'count:5000' } }, callContext());
    let events = 0;
    for await (const _ of other) events += 1;
    expect(events).toBe(5_002);
    await until(() => generation.usageSoFar().completionTokens > 1);
    const ahead = generation.usageSoFar().completionTokens;
    expect(ahead).toBeLessThanOrEqual(64);
    await reader.return?.();
    slow[Symbol.dispose]();
  });

  it('stop when the consumer leaves, and report the usage so far', async () => {
    await using bed = engineBed();
    using lease = await bed.registry.acquire(chat, callContext());
    const generation = pulled(lease.engine.chat, { prompt: { text: 'forever' } }, callContext());
    let seen = 0;
    for await (const event of generation) {
      if (event.type === 'text-delta') seen += 1;
      if (seen === 10) break;
    }
    const { completionTokens } = generation.usageSoFar();
    expect(completionTokens).toBeGreaterThanOrEqual(10);
    expect(await embed(lease.engine, ['x'])).toMatchObject({ tokens: [1] });
    expect(generation.usageSoFar().completionTokens).toBe(completionTokens);
  });

  it('end with an error when the signal fires', async () => {
    await using bed = engineBed();
    const client = new AbortController();
    using lease = await bed.registry.acquire(chat, callContext());
    const generation = pulled(
      lease.engine.chat,
      { prompt: { text: 'forever' } },
      callContext({ signal: client.signal }),
    );
    const read = async () => {
      for await (const event of generation) if (event.type === 'text-delta') client.abort();
    };
    await expect(read()).rejects.toMatchObject({ code: 'client_cancelled' });
    expect(generation.usageSoFar().completionTokens).toBeGreaterThanOrEqual(1);
  });
});
