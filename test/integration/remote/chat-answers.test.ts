import { afterEach, describe, expect, it } from 'vitest';
import type { ChatEvent, ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { answerJson } from '../../fixtures/fake-upstream.ts';
import { collect, hello, type RemoteBench, remoteBench, textOf } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

const chunk = (delta: object, finish: string | null = null, more: object = {}): object => ({
  id: 'c',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason: finish, ...more }],
});

describe('a streamed answer', () => {
  const eventsOf = async (payloads: readonly object[], request = hello): Promise<ChatEvent[]> => {
    bench = await remoteBench({ upstreams: [{ behaviour: { payloads } }] });
    return collect(bench.chat(request));
  };

  it.each(['reasoning', 'reasoning_content'])('becomes reasoning when it is in %s', async (field) => {
    const events = await eventsOf([
      chunk({ role: 'assistant' }),
      chunk({ [field]: 'Hm.' }),
      chunk({ content: 'Yes' }, 'stop'),
    ]);
    expect(events.slice(1, 3)).toEqual([
      { type: 'reasoning-delta', text: 'Hm.' },
      { type: 'text-delta', text: 'Yes' },
    ]);
  });

  it('is reasoning without the line breaks around it', async () => {
    const events = await eventsOf([
      ...['\n', 'Hm', '.\n', '\nSo.', '\n'].map((text) => chunk({ reasoning_content: text })),
      chunk({ content: '\nYes' }, 'stop'),
    ]);
    const of = (type: ChatEvent['type']) =>
      events.flatMap((event) => (event.type === type && 'text' in event ? event.text : []));
    expect(of('reasoning-delta').join('')).toBe('Hm.\n\nSo.');
    expect(of('text-delta').join('')).toBe('\nYes');
  });

  it('becomes tool calls with argument deltas', async () => {
    const events = await eventsOf([
      chunk({ role: 'assistant', content: null }),
      chunk({ tool_calls: [{ index: 0, id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"x"' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }),
      chunk({ tool_calls: [{ index: 1, id: 'call_b', type: 'function', function: { name: 'g', arguments: '{}' } }] }),
      chunk({}, 'tool_calls'),
    ]);
    expect(events.slice(1)).toEqual([
      { type: 'tool-call-delta', index: 0, id: 'call_a', name: 'f', argumentsDelta: '' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: '{"x"' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: ':1}' },
      { type: 'tool-call-delta', index: 1, id: 'call_b', name: 'g', argumentsDelta: '{}' },
      { type: 'end', reason: 'tool_calls', usage: expect.anything() },
    ]);
  });

  it("becomes tool calls also in Ollama's shape: whole, without index, ended by stop", async () => {
    const call = (name: string, given: object) => ({ id: `call_${name}`, function: { name, arguments: given } });
    const events = await eventsOf([
      chunk({ role: 'assistant', content: '', tool_calls: [call('f', { x: 1 }), call('g', {})] }),
      chunk({ role: 'assistant', content: '' }, 'stop'),
    ]);
    expect(events.slice(1)).toEqual([
      { type: 'tool-call-delta', index: 0, id: 'call_f', name: 'f', argumentsDelta: '{"x":1}' },
      { type: 'tool-call-delta', index: 1, id: 'call_g', name: 'g', argumentsDelta: '{}' },
      { type: 'end', reason: 'tool_calls', usage: expect.anything() },
    ]);
  });

  it.each([
    ['numbers them from 1', [1, 2], ['a', 'b']],
    ['numbers all of them 0', [0, 0], ['a', 'b']],
  ])('becomes tool calls with numbers from 0 if the upstream %s', async (_, [first, second], [one, other]) => {
    const begin = (index: number | undefined, id: string | undefined) =>
      chunk({ tool_calls: [{ index, id, type: 'function', function: { name: `f_${id}`, arguments: '{' } }] });
    const events = await eventsOf([
      begin(first, one),
      chunk({ tool_calls: [{ index: first, function: { arguments: '}' } }] }),
      begin(second, other),
      chunk({ tool_calls: [{ index: second, function: { arguments: '}' } }] }),
      chunk({}, 'tool_calls'),
    ]);
    expect(events.slice(1, -1)).toEqual([
      { type: 'tool-call-delta', index: 0, id: 'a', name: 'f_a', argumentsDelta: '{' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: '}' },
      { type: 'tool-call-delta', index: 1, id: 'b', name: 'f_b', argumentsDelta: '{' },
      { type: 'tool-call-delta', index: 1, argumentsDelta: '}' },
    ]);
  });

  it('becomes tool calls with an id if the upstream gives none', async () => {
    const events = await eventsOf([
      chunk({ tool_calls: [{ index: 0, id: '', function: { name: 'f', arguments: '{' } }] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: '}' } }] }),
      chunk({}, 'tool_calls'),
    ]);
    const id = expect.stringMatching(/^call_\w{32}$/);
    expect(events.slice(1, -1)).toEqual([
      { type: 'tool-call-delta', index: 0, id, name: 'f', argumentsDelta: '{' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: '}' },
    ]);
  });

  it('names a tool call once, also if the upstream repeats id and name', async () => {
    const piece = (text: string) =>
      chunk({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: text } }] });
    const events = await eventsOf([piece('{'), piece('}'), chunk({}, 'tool_calls')]);
    expect(events.slice(1, -1)).toEqual([
      { type: 'tool-call-delta', index: 0, id: 'a', name: 'f', argumentsDelta: '{' },
      { type: 'tool-call-delta', index: 0, argumentsDelta: '}' },
    ]);
  });

  it('carries log probabilities with bytes', async () => {
    const content = [
      { token: 'é', logprob: -0.1, bytes: [195, 169], top_logprobs: [{ token: 'e', logprob: -2, bytes: null }] },
    ];
    const events = await eventsOf([chunk({ content: 'é' }, null, { logprobs: { content } }), chunk({}, 'length')]);
    expect(events[1]).toEqual({
      type: 'text-delta',
      text: 'é',
      logprobs: [{ token: 'é', bytes: [195, 169], logprob: -0.1, top: [{ token: 'e', bytes: [101], logprob: -2 }] }],
    });
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'length' });
  });

  it('carries log probabilities of plain completions', async () => {
    const logprobs = {
      tokens: [' a'],
      token_logprobs: [-0.5],
      top_logprobs: [{ ' a': -0.5, ' b': -1 }],
      text_offset: [0],
    };
    const events = await eventsOf([{ choices: [{ index: 0, text: ' a', logprobs, finish_reason: 'stop' }] }], {
      prompt: { text: 'x' },
      maxTokens: 1,
      logprobs: { top: 2 },
    });
    expect(events[1]).toEqual({
      type: 'text-delta',
      text: ' a',
      logprobs: [
        {
          token: ' a',
          bytes: [32, 97],
          logprob: -0.5,
          top: [
            { token: ' a', bytes: [32, 97], logprob: -0.5 },
            { token: ' b', bytes: [32, 98], logprob: -1 },
          ],
        },
      ],
    });
  });

  it('may be split anywhere, even inside a character', async () => {
    const bytes = Buffer.from(
      `data: ${JSON.stringify(chunk({ content: 'Mbóte 🌳' }, 'stop'))}\r\n\r\ndata: [DONE]\r\n\r\n`,
    );
    const rawPieces = [...bytes].map((byte) => Uint8Array.of(byte));
    bench = await remoteBench({ upstreams: [{ behaviour: { rawPieces } }] });
    expect(textOf(await collect(bench.chat(hello)))).toBe('Mbóte 🌳');
  });

  it('may be one piece of JSON, from a server that cannot stream', async () => {
    bench = await remoteBench({ upstreams: [{}] });
    bench.upstreams[0]?.script.push(
      answerJson(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: 'All at once' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 3, completion_tokens: 4 },
      }),
    );
    const events = await collect(bench.chat(hello));
    expect(events).toEqual([
      { type: 'start', promptTokens: 3, cachedTokens: 0 },
      { type: 'text-delta', text: 'All at once' },
      { type: 'end', reason: 'stop', usage: { promptTokens: 3, completionTokens: 4, cachedTokens: 0 } },
    ]);
  });

  it('may end without [DONE], but not without a reason', async () => {
    bench = await remoteBench({ upstreams: [{ behaviour: { withDone: false } }] });
    expect(textOf(await collect(bench.chat(hello)))).toBe('Hello from the other side.');
    await bench.close();
    bench = await remoteBench({ upstreams: [{ behaviour: { withDone: false, payloads: [chunk({ content: 'a' })] } }] });
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'model_unavailable' });
  });
});

describe('usage that an upstream does not report', () => {
  it.each([
    ['vllm', 3],
    ['llama-server', 3],
    ['openai', 5],
  ] as const)('is counted here for %s', async (kind, promptTokens) => {
    bench = await remoteBench({ upstreams: [{ kind, behaviour: { withUsage: false } }] });
    const events = await collect(bench.chat(hello));
    expect(events.at(-1)).toMatchObject({ usage: { promptTokens, completionTokens: 6, cachedTokens: 0 } });
  });

  it.each([-1, 1.5, 1e300])('is counted here when it reports %s', async (wrong) => {
    const usage = { prompt_tokens: wrong, completion_tokens: wrong, prompt_tokens_details: { cached_tokens: wrong } };
    const payloads = [chunk({ content: 'Yes' }, 'stop'), { choices: [], usage }];
    bench = await remoteBench({ upstreams: [{ behaviour: { payloads } }] });
    const events = await collect(bench.chat(hello));
    expect(events.at(-1)).toMatchObject({ usage: { promptTokens: 5, completionTokens: 1, cachedTokens: 0 } });
  });

  it('is known exactly in the middle of a vLLM or llama-server stream', async () => {
    for (const kind of ['vllm', 'llama-server'] as const) {
      bench = await remoteBench({ upstreams: [{ kind }] });
      const generation = bench.chat(hello);
      for await (const event of generation) {
        if (event.type === 'text-delta' && event.text === ' the') break;
      }
      expect(generation.usageSoFar()).toMatchObject({ promptTokens: 9, completionTokens: expect.any(Number) });
      expect(generation.usageSoFar().completionTokens).toBeGreaterThanOrEqual(3);
      if (kind === 'vllm') await bench.close();
    }
  });
});

describe('a cancelled vLLM stream', () => {
  const long: ChatRequest = { prompt: { messages: [{ role: 'user', content: 'a long prompt '.repeat(30) }] } };
  const cancelled = async (accountId: string) => {
    if (bench.upstreams[0] !== undefined) bench.upstreams[0].behaviour.stallAfterChunks = 2;
    const generation = bench.chat(long, { accountId });
    for await (const event of generation) if (event.type === 'text-delta') break;
    return generation.usageSoFar();
  };

  it('keeps the discount for a prefix that was cached', async () => {
    bench = await remoteBench({
      upstreams: [{ kind: 'vllm', behaviour: { promptTokens: 100, cachedTokens: 0 } }],
      model: { contextLength: 1_000 },
    });
    await collect(bench.chat(long));
    expect(await cancelled('acc_1')).toEqual({ promptTokens: 100, completionTokens: 1, cachedTokens: 96 });
    expect(await cancelled('acc_2')).toEqual({ promptTokens: 100, completionTokens: 1, cachedTokens: 0 });
    expect(await cancelled('acc_2')).toMatchObject({ cachedTokens: 96 });
  });

  it('has no discount where whole streams have none', async () => {
    bench = await remoteBench({ upstreams: [{ kind: 'vllm', behaviour: { promptTokens: 100 } }] });
    await collect(bench.chat(long));
    expect(await cancelled('acc_1')).toMatchObject({ cachedTokens: 0 });
  });

  it('leaves the count of a whole stream alone', async () => {
    bench = await remoteBench({ upstreams: [{ kind: 'vllm', behaviour: { promptTokens: 100, cachedTokens: 32 } }] });
    for (let i = 0; i < 2; i++) {
      const generation = bench.chat(long);
      const end = (await collect(generation)).at(-1);
      expect([end, generation.usageSoFar()]).toMatchObject([{ usage: { cachedTokens: 32 } }, { cachedTokens: 32 }]);
    }
  });
});

describe('token counts', () => {
  it.each([
    ['vllm', 5],
    ['llama-server', 5],
    ['tei', 5],
    ['ollama', 4],
    ['openai', 4],
  ] as const)('%s: from its tokenizer if it has one, an estimate otherwise', async (kind, tokens) => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    expect(await bench.engine().countTokens('one two three')).toBe(tokens);
  });

  it('are estimated while no upstream can count', async () => {
    bench = await remoteBench({ upstreams: [{ kind: 'vllm' }] });
    await bench.upstreams[0]?.close();
    expect(await bench.engine().countTokens('one two three')).toBe(4);
    expect(await bench.engine().countTokens('你好')).toBe(2);
  });
});

describe('tokens of an upstream', () => {
  const decode = () => bench.engine().tokenizer?.decode([1, 2], bench.context());
  const noRoute = answerJson(404, { detail: 'Not Found' });

  it.each(['vllm', 'llama-server', 'baobab'] as const)(
    'are refused with 422 where a server of the kind %s lacks the route, without a pause for its other requests',
    async (kind) => {
      bench = await remoteBench({ upstreams: [{ kind }] });
      for (let i = 0; i < 10; i++) {
        bench.upstreams[0]?.script.push(noRoute);
        await expect(decode()).rejects.toMatchObject({ status: 422, code: 'unsupported_parameter', field: ['model'] });
      }
      expect(textOf(await collect(bench.chat(hello)))).not.toBe('');
      expect(bench.log).toEqual([]);
    },
  );

  it('come from another upstream that has the route', async () => {
    bench = await remoteBench({ upstreams: [{ kind: 'vllm' }, { kind: 'vllm' }, { kind: 'openai' }] });
    bench.upstreams[0]?.script.push(noRoute);
    for (let i = 0; i < 3; i++) expect(await decode()).toBe('1,2');
  });

  it('are unavailable where it does not know the model', async () => {
    bench = await remoteBench({ upstreams: [{ kind: 'vllm' }] });
    bench.upstreams[0]?.script.push(
      answerJson(404, { error: { message: 'The model `x` does not exist.', code: 404 } }),
    );
    await expect(decode()).rejects.toMatchObject({ status: 503, code: 'model_unavailable' });
  });
});
