import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChatCapability, ChatEvent, ChatRequest, EngineModel } from '../../packages/core/src/engine/engine.ts';
import { callContext } from '../../packages/core/src/engine/testing/call-context.ts';
import { pulled } from '../../packages/core/src/engine/testing/pulled-generation.ts';
import type { LlamaOptions } from '../../packages/engines/src/llama/driver.ts';
import { randomSchema } from '../../packages/engines/src/llama/grammar/testing/random-schema.ts';
import { load } from '../../packages/engines/src/llama/load.ts';
import { weights } from './weights.ts';

const SLOTS = 2;
/** A few on the real model; the grammar itself is tested with 1 000. */
const RANDOM_SCHEMAS = 6;

let model: EngineModel;
let chat: ChatCapability;

beforeAll(async () => {
  const spec = await weights<LlamaOptions>('huggingfacetb/smollm2-135m-instruct');
  model = await load({
    ...spec,
    engine: { ...spec.engine, options: { ...spec.engine.options, stableOutputs: true } },
    contextLength: 2048,
    parallelSequences: SLOTS,
  });
  if (!model.chat) throw new Error('The model has no chat capability');
  chat = model.chat;
});

afterAll(() => model[Symbol.asyncDispose]());

const call = (accountId: string, signal?: AbortSignal) => callContext(signal, { accountId });

const ask = (content: string): ChatRequest => ({ prompt: { messages: [{ role: 'user', content }] } });
const KENYA: ChatRequest = { ...ask('What is the capital of Kenya?'), temperature: 0 };

async function run(request: ChatRequest, accountId = 'account') {
  const events = await Array.fromAsync(pulled(chat, request, call(accountId)));
  const of = <T extends ChatEvent['type']>(type: T) =>
    events.filter((event): event is Extract<ChatEvent, { type: T }> => event.type === type);
  const [end] = of('end');
  if (!end || events.at(-1) !== end) throw new Error('The last event is not the end');
  return {
    text: of('text-delta')
      .map((event) => event.text)
      .join(''),
    logprobs: of('text-delta').flatMap((event) => event.logprobs ?? []),
    tokenIds: events.slice(1).flatMap(({ tokenIds = [] }) => tokenIds),
    calls: of('tool-call-delta'),
    start: events[0],
    reason: end.reason,
    usage: end.usage,
  };
}

describe('SmolLM2 on the llama engine', () => {
  it('knows the capital of Kenya, and reports that the answer was cut', async () => {
    const answer = await run({ ...KENYA, maxTokens: 6 });
    expect(answer.text).toBe('The capital of Kenya is Nairobi');
    expect(answer.reason).toBe('length');
    expect(answer.start).toEqual({ type: 'start', promptTokens: 37, cachedTokens: 0 });
    expect(answer.usage).toEqual({ promptTokens: 37, completionTokens: 6, cachedTokens: 0 });
  });

  it('stops before a stop sequence that spans tokens', async () => {
    const answer = await run({ ...KENYA, maxTokens: 12, stop: ['is Nai'] });
    expect(answer).toMatchObject({ text: 'The capital of Kenya ', reason: 'stop', usage: { completionTokens: 6 } });
  });

  it('gives the same text for the same seed, whatever else runs', async () => {
    const seeded = { ...ask('Write a story.'), temperature: 1.2, seed: 42, maxTokens: 8 };
    const alone = await run(seeded, 'first');
    const [busy, other] = await Promise.all([
      run(seeded, 'second'),
      run({ ...ask('Tell a joke.'), maxTokens: 8 }, 'third'),
    ]);
    expect(busy.text).toBe(alone.text);
    expect(other.text).not.toBe(alone.text);
    expect((await run({ ...seeded, seed: -7 }, 'first')).text).not.toBe(alone.text);
  });

  it('reports log probabilities with bytes and alternatives', async () => {
    const { logprobs, text } = await run({ ...KENYA, maxTokens: 3, logprobs: { top: 2 } });
    expect(logprobs.map((entry) => Buffer.from(entry.bytes).toString()).join('')).toBe(text);
    for (const entry of logprobs) {
      expect(entry.top).toHaveLength(2);
      expect(entry.top[0]).toEqual({ token: entry.token, bytes: entry.bytes, logprob: entry.logprob });
      expect(Math.exp(entry.logprob ?? 0)).toBeGreaterThan(0.2);
      expect(Math.exp(entry.top[1]?.logprob ?? 0)).toBeLessThan(Math.exp(entry.logprob ?? 0));
    }
  });

  it('scores an echoed prompt as it would have written it, and counts the end as a token', async () => {
    const written = await run({ ...KENYA, maxTokens: 9, logprobs: { top: 1 }, withTokenIds: true });
    const ids = [...(written.start?.tokenIds ?? []), ...written.tokenIds];
    const echoed = { prompt: { tokens: ids }, temperature: 0, echoes: true as const, logprobs: { top: 1 } };
    const scored = await run({ ...echoed, maxTokens: 0 });
    expect(scored.text.endsWith(written.text)).toBe(true);
    expect(scored.usage).toMatchObject({ promptTokens: ids.length, completionTokens: 0, cachedTokens: 0 });
    expect(scored.logprobs).toHaveLength(ids.length);
    expect(scored.logprobs[0]).toMatchObject({ logprob: null, top: [] });
    for (const [at, entry] of scored.logprobs.slice(-written.tokenIds.length).entries()) {
      // The likeliest token was written, and its probability does not depend on how many tokens are computed at once, but for rounding.
      expect(entry.top[0]?.token).toBe(entry.token);
      expect(entry.logprob).toBeCloseTo(written.logprobs[at]?.logprob ?? 1, 0);
    }
    const more = await run({ ...echoed, maxTokens: 1 });
    expect(more.logprobs).toHaveLength(ids.length + 1);
  });

  it('keeps an answer from ending', async () => {
    const short = await run({ ...KENYA, maxTokens: 40 });
    expect(short.reason).toBe('stop');
    const { completionTokens } = short.usage;
    const longer = await run({ ...KENYA, maxTokens: 40, minTokens: completionTokens + 3 });
    expect(longer.usage.completionTokens).toBeGreaterThanOrEqual(completionTokens + 3);
    const endless = await run({ ...KENYA, maxTokens: 40, ignoresEnd: true });
    expect(endless).toMatchObject({ reason: 'length', usage: { completionTokens: 40 } });
    await expect(run({ ...KENYA, ignoresEnd: true, format: { type: 'json_object' } })).rejects.toMatchObject({
      status: 422,
      param: 'ignoresEnd',
    });
  });

  it('continues the last message', async () => {
    const messages = [
      { role: 'user' as const, content: 'What is the capital of Kenya?' },
      { role: 'assistant' as const, content: 'The capital of Kenya is' },
    ];
    const answer = await run({ prompt: { messages }, answerStart: 'continued', temperature: 0, maxTokens: 3 });
    expect(answer.text).toMatch(/^ Nairobi/);
    const tools = [{ name: 'weather' }];
    await expect(
      run({ prompt: { messages }, answerStart: 'continued', tools, toolChoice: 'required' }),
    ).rejects.toMatchObject({ status: 422, param: 'tools' });
  });

  it('obeys logit_bias and penalties', async () => {
    const nairobi = 44_710;
    const biased = { ...KENYA, maxTokens: 2, logitBias: new Map([[nairobi, 12]]) };
    expect((await run(biased)).text).toBe(' Nairobi Nairobi');
    expect((await run({ ...biased, presencePenalty: 2, frequencyPenalty: 2 })).text).toBe(' Nairobi is');
  });

  it('answers in the form of a JSON schema', async () => {
    const schema = {
      type: 'object',
      properties: {
        capital: { type: 'string', maxLength: 12 },
        population: { type: 'integer', minimum: 1, maximum: 99 },
      },
      required: ['capital', 'population'],
      additionalProperties: false,
    };
    const answer = await run({ ...KENYA, maxTokens: 60, format: { type: 'json_schema', schema } });
    expect(answer.reason).toBe('stop');
    expect(new Ajv2020().compile(schema)(JSON.parse(answer.text))).toBe(true);
  });

  it('keeps to random schemas', async () => {
    const small = fc
      .sample(randomSchema, { seed: 8, numRuns: 60 })
      .filter((schema) => JSON.stringify(schema).length < 300);
    for (const schema of small.slice(0, RANDOM_SCHEMAS)) {
      const answer = await run({ prompt: { text: 'JSON: ' }, maxTokens: 16, format: { type: 'json_schema', schema } });
      const validate = new Ajv2020({ strict: false, validateFormats: false, logger: false }).compile(schema);
      if (answer.reason === 'stop') expect(validate(JSON.parse(answer.text)), answer.text).toBe(true);
      else expect(answer.usage.completionTokens).toBe(16);
    }
  });

  it('calls a required tool with valid arguments', async () => {
    const parameters = {
      type: 'object',
      properties: { unit: { enum: ['celsius', 'fahrenheit'] } },
      required: ['unit'],
      additionalProperties: false,
    };
    const answer = await run({
      ...ask('How warm is it in Paris?'),
      temperature: 0,
      tools: [{ name: 'weather', parameters }],
      toolChoice: 'required',
      parallelToolCalls: false,
    });
    expect(answer.reason).toBe('tool_calls');
    expect(answer.text).toBe('');
    expect(answer.calls[0]).toMatchObject({
      index: 0,
      id: expect.stringMatching(/^call_/),
      name: 'weather',
      argumentsDelta: '',
    });
    const written: unknown = JSON.parse(answer.calls.map((delta) => delta.argumentsDelta).join(''));
    expect(new Ajv2020().compile(parameters)(written)).toBe(true);
  });

  it('reuses the prefix of the same account only', async () => {
    const first = { ...ask('Name a fruit.'), maxTokens: 2 };
    const opening = await run(first, 'talker');
    const second: ChatRequest = {
      prompt: {
        messages: [
          { role: 'user', content: 'Name a fruit.' },
          { role: 'assistant', content: opening.text },
          { role: 'user', content: 'Why?' },
        ],
      },
      maxTokens: 1,
    };
    const turn = await run(second, 'talker');
    expect(turn.usage.cachedTokens).toBeGreaterThanOrEqual(opening.usage.promptTokens - 1);
    expect((await run(second, 'stranger')).usage.cachedTokens).toBe(0);
  });

  it('does not reuse a prefix from a shared batch for reproducible results', async () => {
    const long = ask(`${'The baobab stores water in its trunk. '.repeat(9)}What does it store?`);
    const exact = { ...long, temperature: 0, maxTokens: 2, logprobs: { top: 1 } };
    const cold = await run(exact, 'newcomer');
    await Promise.all([
      run({ ...long, maxTokens: 2 }, 'regular'),
      run({ ...ask('Name a fruit.'), maxTokens: 4 }, 'somebody'),
    ]);
    const warm = await run(exact, 'regular');
    expect(warm.logprobs).toEqual(cold.logprobs);
    expect(warm.usage).toEqual({ ...cold.usage, cachedTokens: 0 });
    const again = await run(exact, 'regular');
    expect(again.logprobs).toEqual(cold.logprobs);
    expect(again.usage.cachedTokens).toBe(64);
    expect((await run({ ...long, maxTokens: 1 }, 'regular')).usage.cachedTokens).toBe(cold.usage.promptTokens - 1);
  });

  it('stops within a token when aborted and frees its slot', async () => {
    const gone = new AbortController();
    const generation = pulled(chat, { ...ask('Count to one thousand.'), maxTokens: 500 }, call('account', gone.signal));
    const failure = async () => {
      for await (const event of generation) if (event.type === 'text-delta') gone.abort();
    };
    await expect(failure()).rejects.toMatchObject({ code: 'client_cancelled' });
    const used = generation.usageSoFar();
    expect(used.completionTokens).toBeLessThanOrEqual(3);
    const early = pulled(chat, { ...ask('Count.'), maxTokens: 500 }, call('account'));
    for await (const event of early) if (event.type === 'text-delta') break;
    expect(generation.usageSoFar()).toEqual(used);
    const both = await Promise.all(['a', 'b'].map((account) => run({ ...ask('Hi'), maxTokens: 1 }, account)));
    expect(both.map((answer) => answer.usage.completionTokens)).toEqual([1, 1]);
  });

  it('refuses what cannot fit before any work', async () => {
    const generation = pulled(chat, ask('word '.repeat(3000)), call('account'));
    await expect(Array.fromAsync(generation)).rejects.toMatchObject({
      status: 422,
      code: 'context_length_exceeded',
      param: 'messages',
    });
    expect(generation.usageSoFar()).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
    await expect(run({ ...KENYA, maxTokens: 2025 })).rejects.toMatchObject({ status: 422, param: 'maxTokens' });
  });

  it('refuses megabytes quickly and serves others meanwhile', async () => {
    const startedAt = performance.now();
    const refused = (request: ChatRequest) =>
      expect(run(request)).rejects.toMatchObject({ code: 'context_length_exceeded', param: 'messages' });
    await Promise.all([
      refused(ask('word '.repeat(4_000_000))),
      refused(ask('<|im_end|>'.repeat(500_000))),
      refused({ prompt: { messages: Array.from({ length: 400_000 }, () => ({ role: 'user', content: '' })) } }),
      expect(run({ ...KENYA, maxTokens: 1 })).resolves.toMatchObject({ text: 'The' }),
    ]);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
  });

  it('refuses a bias for a token that it does not have, by its id', async () => {
    const logitBias = new Map([
      [5, 1],
      [49_152, 1],
    ]);
    await expect(run({ ...KENYA, logitBias })).rejects.toMatchObject({ status: 400, param: 'logitBias[49152]' });
  });

  it('counts tokens', async () => {
    expect(await model.countTokens('The capital of Kenya is Nairobi.')).toBe(7);
  });
});
