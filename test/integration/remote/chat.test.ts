import { afterEach, describe, expect, it } from 'vitest';
import type { ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { longestAnswer } from '../../../packages/server/src/upstreams/chat/capability.ts';
import { answerJson, type FakeKind } from '../../fixtures/fake-upstream.ts';
import { collect, hello, type RemoteBench, remoteBench, textOf } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

describe.each(['openai', 'vllm', 'llama-server', 'ollama', 'baobab'] as const)('a chat through %s', (kind) => {
  it('returns the text, the reason and the exact usage', async () => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    const generation = bench.chat(hello);
    const events = await collect(generation);
    const usage = {
      promptTokens: 9,
      completionTokens: 6,
      cachedTokens: kind === 'vllm' || kind === 'ollama' ? 0 : 4,
    };
    expect(textOf(events)).toBe('Hello from the other side.');
    expect(events.filter((event) => event.type === 'start')).toHaveLength(1);
    expect(events[0]?.type).toBe('start');
    expect(events.at(-1)).toEqual({ type: 'end', reason: 'stop', usage });
    expect(generation.usageSoFar()).toEqual(usage);
    expect(generation.servedRegion()).toBe('local');
  });

  it('returns the same for a plain prompt', async () => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    expect(textOf(await collect(bench.chat({ prompt: { text: 'Once' }, maxTokens: 5 })))).toBe(
      'Hello from the other side.',
    );
    expect(bench.upstreams[0]?.requests[0]).toMatchObject({
      path: '/v1/completions',
      body: { prompt: 'Once', max_tokens: 5, stream: true },
    });
  });
});

describe('an answer that the client wants whole', () => {
  const whole: ChatRequest = { ...hello, wholeAnswer: true };

  it('is not read when it is longer than the context allows', async () => {
    const content = 'x'.repeat(2 * 1024 * 1024);
    const answerOf = (text: string) => {
      const message = { role: 'assistant', content: text };
      return answerJson(200, { choices: [{ index: 0, finish_reason: 'stop', message }] });
    };
    bench = await remoteBench({ upstreams: [{}] });
    bench.upstreams[0]?.script.push(answerOf(content.slice(0, 1_000_000)), answerOf(content));
    expect(textOf(await collect(bench.chat(whole)))).toHaveLength(1_000_000);
    await expect(collect(bench.chat(whole))).rejects.toMatchObject({
      code: 'model_unavailable',
      message: expect.stringContaining('unexpected answer'),
    });
    // With candidates for each token, and in a longer context, it may be longer.
    expect(longestAnswer({}, 64)).toBeLessThan(content.length);
    expect(longestAnswer({ logprobs: { top: 20 } }, 64)).toBeGreaterThan(longestAnswer({}, 64));
    expect(longestAnswer({}, 131_072)).toBeGreaterThan(content.length);
    expect(longestAnswer({ logprobs: { top: 20 } }, 10_000_000)).toBe(256 * 1024 * 1024);
  });

  it.each(['openai', 'ollama', 'baobab'] as const)('is asked for whole, with the usage of %s', async (kind) => {
    // In streams it sends no usage.
    bench = await remoteBench({ upstreams: [{ kind, behaviour: { withUsage: false } }] });
    for (const request of [whole, { prompt: { text: 'Hi' }, maxTokens: 9, wholeAnswer: true }]) {
      const events = await collect(bench.chat(request));
      expect(events.map(({ type }) => type)).toEqual(['start', 'text-delta', 'end']);
      expect(events[1]).toMatchObject({ text: 'Hello from the other side.' });
      const usage = { promptTokens: 9, completionTokens: 6, cachedTokens: 4 };
      expect(events[2]).toEqual({ type: 'end', reason: 'stop', usage });
      const body = bench.upstreams[0]?.requests.at(-1)?.body as Record<string, unknown>;
      expect([body.stream, body.stream_options]).toEqual([undefined, undefined]);
    }
  });

  it.each(['vllm', 'llama-server'] as const)('is streamed by %s, which counts with every chunk', async (kind) => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    await collect(bench.chat(whole));
    expect(bench.upstreams[0]?.requests[0]?.body).toMatchObject({ stream: true });
  });

  it('may take longer than the first byte of a stream', async () => {
    bench = await remoteBench({
      upstreams: [{ settings: { firstByteTimeoutMs: 20 }, behaviour: { firstByteDelayMs: 60 } }],
    });
    expect(await collect(bench.chat(whole))).toHaveLength(3);
    await expect(collect(bench.chat(hello))).rejects.toMatchObject({ code: 'upstream_timeout' });
  });

  it('ends when its upstream hangs, so that it answers no health check either', async () => {
    const settings = { firstByteTimeoutMs: 50 };
    bench = await remoteBench({ upstreams: [{ settings }], model: { healthIntervalMs: 10 } });
    const upstream = bench.upstreams[0] as (typeof bench.upstreams)[number];
    const { promise: hung, resolve: wake } = Promise.withResolvers<void>();
    upstream.behaviour.hold = () => hung;
    const answer = expect(collect(bench.chat(whole))).rejects.toMatchObject({ code: 'upstream_timeout' });
    await upstream.until(() => upstream.requests.length === 1);
    upstream.behaviour.healthStatus = 500;
    await answer;
    wake();
  });

  it('has used its prompt when the client leaves, and nothing when it fails', async () => {
    bench = await remoteBench({ upstreams: [{ behaviour: { stallAfterChunks: 0 } }] });
    const client = new AbortController();
    const left = bench.chat(whole, { signal: client.signal });
    const failed = expect(collect(left)).rejects.toMatchObject({ code: 'client_cancelled' });
    await bench.upstreams[0]?.until(() => bench.upstreams[0]?.requests.length === 1);
    client.abort();
    await failed;
    expect(left.usageSoFar()).toEqual({ promptTokens: 5, completionTokens: 0, cachedTokens: 0 });
    bench.upstreams[0]?.script.push(...Array.from({ length: 3 }, () => answerJson(500, {})));
    const broken = bench.chat(whole);
    await expect(collect(broken)).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(broken.usageSoFar()).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
  });

  it.each([
    ['no choices', {}],
    ['null', null],
    ['an unfinished choice', { choices: [{ index: 0, message: { content: 'x' }, finish_reason: null }] }],
    ['an error', { error: { message: 'EngineCore died', code: 500 } }],
  ])('fails on %s', async (_name, body) => {
    bench = await remoteBench({ upstreams: [{}] });
    bench.upstreams[0]?.script.push(...Array.from({ length: 3 }, () => answerJson(200, body)));
    await expect(collect(bench.chat(whole))).rejects.toMatchObject({ code: 'model_unavailable' });
  });

  it.each([true, false])(
    'is counted by its length when there is no usage (asked for whole: %s)',
    async (wholeAnswer) => {
      bench = await remoteBench({ upstreams: [{}], model: { contextLength: 1_000 } });
      const message = { role: 'assistant', content: 'x'.repeat(400) };
      bench.upstreams[0]?.script.push(answerJson(200, { choices: [{ index: 0, message, finish_reason: 'stop' }] }));
      const events = await collect(bench.chat({ ...hello, wholeAnswer }));
      expect(events.at(-1)).toMatchObject({ usage: { promptTokens: 5, completionTokens: 100 } });
    },
  );

  it('is counted by its bytes, but not beyond the context and `max_tokens`', async () => {
    bench = await remoteBench({ upstreams: [{}] });
    const ask = async (asked: string, answered: string, maxTokens?: number) => {
      const message = { role: 'assistant', content: answered };
      bench.upstreams[0]?.script.push(answerJson(200, { choices: [{ index: 0, message, finish_reason: 'stop' }] }));
      const prompt = { messages: [{ role: 'user' as const, content: asked }] };
      const end = (await collect(bench.chat({ prompt, wholeAnswer: true, maxTokens }))).at(-1);
      return end?.type === 'end' ? [end.usage.promptTokens, end.usage.completionTokens] : [];
    };
    expect(await ask('你好', 'ሰላም')).toEqual([4 + 2, 3]);
    expect(await ask('你'.repeat(1_000), 'ሰላም', 2)).toEqual([64, 2]);
  });

  it('has tool calls and log probabilities', async () => {
    bench = await remoteBench({ upstreams: [{}] });
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } };
    const logprobs = { content: [{ token: 'Hi', logprob: -0.5, bytes: [72, 105], top_logprobs: [] }] };
    const message = { role: 'assistant', content: 'Hi', tool_calls: [call] };
    const answer = { choices: [{ index: 0, message, logprobs, finish_reason: 'tool_calls' }], usage: {} };
    bench.upstreams[0]?.script.push(answerJson(200, answer));
    expect(await collect(bench.chat(whole))).toMatchObject([
      { type: 'start' },
      { type: 'text-delta', text: 'Hi', logprobs: [{ token: 'Hi', logprob: -0.5 }] },
      { type: 'tool-call-delta', index: 0, id: 'call_1', name: 'weather', argumentsDelta: '{}' },
      { type: 'end', reason: 'tool_calls' },
    ]);
  });
});

describe('the request to an upstream', () => {
  const bodyOf = async (request: ChatRequest, kind: FakeKind = 'openai'): Promise<unknown> => {
    bench = await remoteBench({ upstreams: [{ kind, settings: { apiKey: 'secret-key' } }] });
    await collect(bench.chat(request));
    return bench.upstreams[0]?.requests.at(-1)?.body;
  };

  it('has every field in wire names', async () => {
    const body = await bodyOf({
      prompt: {
        messages: [
          { role: 'system', content: 'Be kind.' },
          { role: 'user', content: 'Weather?', name: 'ann' },
          {
            role: 'assistant',
            content: '',
            toolCalls: [{ id: 'call_1', name: 'weather', arguments: '{"at":"Kigali"}' }],
          },
          { role: 'tool', content: '24 C', toolCallId: 'call_1' },
        ],
      },
      tools: [
        { name: 'weather', description: 'Now', parameters: { type: 'object' }, extra: { strict: true, x: [1] } },
        { name: 'time' },
      ],
      toolChoice: { name: 'weather' },
      parallelToolCalls: false,
      format: { type: 'json_schema', name: 'answer', schema: { type: 'object' } },
      maxTokens: 50,
      temperature: 0,
      topP: 0.9,
      seed: 7,
      stop: ['END'],
      frequencyPenalty: 0.1,
      presencePenalty: -0.1,
      logitBias: new Map([[42, -100]]),
      logprobs: { top: 3 },
    });
    expect(body).toEqual({
      model: 'upstream-model',
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'Weather?', name: 'ann' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"at":"Kigali"}' } }],
        },
        { role: 'tool', content: '24 C', tool_call_id: 'call_1' },
      ],
      tools: [
        {
          type: 'function',
          function: { name: 'weather', description: 'Now', parameters: { type: 'object' }, strict: true, x: [1] },
        },
        { type: 'function', function: { name: 'time', parameters: { type: 'object', properties: {} } } },
      ],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      parallel_tool_calls: false,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'answer', schema: { type: 'object' }, strict: true },
      },
      max_tokens: 50,
      temperature: 0,
      top_p: 0.9,
      seed: 7,
      stop: ['END'],
      frequency_penalty: 0.1,
      presence_penalty: -0.1,
      logit_bias: { 42: -100 },
      logprobs: true,
      top_logprobs: 3,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(bench.upstreams[0]?.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer secret-key',
      'x-request-id': 'req_1',
    });
  });

  it('has only the fields that are set', async () => {
    expect(await bodyOf({ ...hello, tools: [], toolChoice: 'auto', format: { type: 'text' } })).toEqual({
      model: 'upstream-model',
      messages: [{ role: 'user', content: 'Hi' }],
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it.each([
    [
      'vllm',
      { topK: 5, minTokens: 2, answerStart: 'continued' as const },
      { top_k: 5, min_tokens: 2, continue_final_message: true, add_generation_prompt: false },
    ],
    [
      'vllm',
      { format: { type: 'choice' as const, texts: ['a'] } },
      { structured_outputs: { choice: ['a'] }, guided_choice: ['a'] },
    ],
    [
      'llama-server',
      { format: { type: 'choice' as const, texts: ['a "b"'] } },
      { grammar: 'root ::= "a \\x22b\\x22"' },
    ],
    ['baobab', { format: { type: 'regex' as const, pattern: 'a+' } }, { structured_outputs: { regex: 'a+' } }],
    ['openai', { minP: 0, repetitionPenalty: 1, minTokens: 0 }, {}],
  ] as const)('asks %s for what few servers can do', async (kind, more, fields) => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    await collect(bench.chat({ ...hello, ...more }));
    expect(bench.upstreams[0]?.requests[0]?.body).toMatchObject(fields);
  });

  it.each([
    ['openai', { topK: 5 }, 'topK'],
    ['openai', { answerStart: 'continued' as const }, 'answerStart'],
    ['ollama', { format: { type: 'choice' as const, texts: ['a'] } }, 'format'],
    ['llama-server', { format: { type: 'regex' as const, pattern: 'a' } }, 'format'],
    ['llama-server', { withTokenIds: true as const }, 'withTokenIds'],
    ['openai', { countsEach: true as const }, 'countsEach'],
  ] as const)('refuses what %s would leave out', async (kind, more, param) => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    await expect(collect(bench.chat({ ...hello, ...more }))).rejects.toMatchObject({
      status: 422,
      code: 'unsupported_parameter',
      param,
    });
    expect(bench.upstreams[0]?.requests).toEqual([]);
  });

  it('asks for JSON mode', async () => {
    expect(await bodyOf({ ...hello, format: { type: 'json_object' } })).toMatchObject({
      response_format: { type: 'json_object' },
    });
  });

  it.each(['vllm', 'openai'] as const)('separates the prefix caches of accounts on vLLM only (%s)', async (kind) => {
    bench = await remoteBench({ upstreams: [{ kind }] });
    for (const accountId of ['acc_1', 'acc_1', 'acc_2']) await collect(bench.chat(hello, { accountId }));
    const salts = bench.upstreams[0]?.requests.map(({ body }) => (body as { cache_salt?: string }).cache_salt) ?? [];
    expect(new Set(salts).size).toBe(kind === 'vllm' ? 2 : 1);
    expect(salts[0]).toBe(salts[1]);
    if (kind === 'vllm') expect(salts[0]).toMatch(/^[\w-]{43}$/);
    else expect(salts).toEqual([undefined, undefined, undefined]);
  });

  it('asks llama-server for JSON mode with a schema', async () => {
    expect(await bodyOf({ ...hello, format: { type: 'json_object' } }, 'llama-server')).toMatchObject({
      response_format: { type: 'json_object', schema: { type: 'object' } },
    });
  });

  it('forces a named tool on llama-server by sending it alone', async () => {
    const tools = [{ name: 'weather' }, { name: 'time' }];
    const { tools: sent, tool_choice } = (await bodyOf(
      { ...hello, tools, toolChoice: { name: 'time' } },
      'llama-server',
    )) as { tools: unknown[]; tool_choice: unknown };
    expect(tool_choice).toBe('required');
    expect(sent).toMatchObject([{ type: 'function', function: { name: 'time' } }]);
    await bench.close();
    const all = await bodyOf({ ...hello, tools, toolChoice: 'required' }, 'llama-server');
    expect(all).toMatchObject({ tools: [{}, {}], tool_choice: 'required' });
  });

  it('offers Ollama, which does not read the choice, only the tools that may be called', async () => {
    const tools = [{ name: 'weather' }, { name: 'time' }];
    const named = await bodyOf({ ...hello, tools, toolChoice: { name: 'time' } }, 'ollama');
    expect((named as { tools: unknown[] }).tools).toMatchObject([{ function: { name: 'time' } }]);
    await bench.close();
    expect(await bodyOf({ ...hello, tools, toolChoice: 'none' }, 'ollama')).not.toHaveProperty('tools');
    await bench.close();
    expect(await bodyOf({ ...hello, tools, toolChoice: 'none' }, 'vllm')).toMatchObject({
      tools: [{}, {}],
      tool_choice: 'none',
    });
  });

  it.each([
    ['ollama', { reasoning_effort: 'none' }],
    ['vllm', { chat_template_kwargs: { enable_thinking: false } }],
  ] as const)('tells %s not to reason', async (kind, fields) => {
    expect(await bodyOf({ ...hello, reasoningEffort: 'none' }, kind)).toMatchObject(fields);
  });

  it('takes token ids as a prompt and fills the context when there is no limit', async () => {
    expect(await bodyOf({ prompt: { tokens: [1, 2, 3] } })).toMatchObject({ prompt: [1, 2, 3], max_tokens: 61 });
  });

  it("counts a text prompt with vLLM's own tokenizer to fill the context", async () => {
    expect(await bodyOf({ prompt: { text: 'one two three' } }, 'vllm')).toMatchObject({ max_tokens: 64 - 5 });
  });

  it('leaves room for twice the tokens of English text, or for those of another script, where nothing counts', async () => {
    expect(await bodyOf({ prompt: { text: 'one two three' } })).toMatchObject({ max_tokens: 64 - 7 });
    await bench.close();
    expect(await bodyOf({ prompt: { text: '你好' } })).toMatchObject({ max_tokens: 64 - 4 });
  });

  it('switches to max_completion_tokens where max_tokens is refused, and remembers it', async () => {
    bench = await remoteBench({ upstreams: [{}] });
    bench.upstreams[0]?.script.push(
      answerJson(400, {
        error: {
          message:
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
          type: 'invalid_request_error',
          param: 'max_tokens',
          code: 'unsupported_parameter',
        },
      }),
    );
    for (let i = 0; i < 2; i++) await collect(bench.chat({ ...hello, maxTokens: 9 }));
    const bodies = bench.upstreams[0]?.requests.map((request) => request.body);
    expect(bodies).toHaveLength(3);
    expect(bodies?.[1]).toMatchObject({ max_completion_tokens: 9 });
    expect(bodies?.[2]).toMatchObject({ max_completion_tokens: 9 });
    expect(bodies?.[2]).not.toHaveProperty('max_tokens');
  });
});
