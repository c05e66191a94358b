import Anthropic from '@anthropic-ai/sdk';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { answerJson } from '../fixtures/fake-upstream.ts';
import { answering, turnChunks } from '../fixtures/scripted-model.ts';
import { CHAT, EMBEDDING, KEY, startHttpBed } from './http/bed.ts';

const bed = await startHttpBed();
const anthropic = new Anthropic({ baseURL: bed.address, apiKey: KEY, maxRetries: 0 });
afterAll(() => bed[Symbol.asyncDispose]());
afterEach(() => {
  bed.chat.script.length = 0;
  bed.chat.requests.length = 0;
});

const WEATHER = {
  name: 'get_weather',
  description: 'Weather of a city',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
};
const ask = { model: CHAT, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] };
const sent = (index = 0) => bed.chat.requests[index]?.body as Record<string, unknown> & { messages: object[] };

describe('POST /v1/messages', () => {
  it('answers the official client', async () => {
    bed.chat.script.push(answering({ text: 'Hello there', promptTokens: 12, cachedTokens: 8 }));
    const message = await anthropic.messages.create({ ...ask, system: 'Be brief.' });
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: CHAT,
      content: [{ type: 'text', text: 'Hello there' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 4, cache_read_input_tokens: 8, cache_creation_input_tokens: 0, output_tokens: 2 },
    });
    expect(message._request_id).toMatch(/^req_/);
    expect(sent().messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
    ]);
  });

  it('streams a tool loop with thinking', async () => {
    bed.chat.script.push(
      answering({
        reasoning: 'Look it up.',
        text: 'One moment.',
        calls: [
          { id: 'call_a', name: 'get_weather', arguments: { city: 'Nairobi' } },
          { id: 'call_b', name: 'get_weather', arguments: { city: 'Mombasa' } },
        ],
      }),
      answering({ text: 'Sunny in both.' }),
    );
    const options = { ...ask, tools: [WEATHER], thinking: { type: 'enabled' as const, budget_tokens: 1024 } };
    const stream = anthropic.messages.stream(options);
    const types: string[] = [];
    stream.on('streamEvent', (event) => types.push(event.type));
    const message = await stream.finalMessage();
    expect(types[0]).toBe('message_start');
    expect(types.slice(-2)).toEqual(['message_delta', 'message_stop']);
    expect(message.stop_reason).toBe('tool_use');
    expect(message.content).toMatchObject([
      { type: 'thinking', thinking: 'Look it up.', signature: expect.stringMatching(/./) },
      { type: 'text', text: 'One moment.' },
      { type: 'tool_use', id: 'call_a', name: 'get_weather', input: { city: 'Nairobi' } },
      { type: 'tool_use', id: 'call_b', name: 'get_weather', input: { city: 'Mombasa' } },
    ]);
    const next = await anthropic.messages.create({
      ...options,
      messages: [
        ...ask.messages,
        { role: 'assistant', content: message.content },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'call_a', content: 'sun' },
            { type: 'tool_result', tool_use_id: 'call_b', content: [{ type: 'text', text: 'sun' }] },
            { type: 'text', text: 'Go on.', cache_control: { type: 'ephemeral' } },
          ],
        },
      ],
    });
    expect(next.content).toMatchObject([{ type: 'text', text: 'Sunny in both.' }]);
    const call = (id: string, city: string) => ({
      id,
      type: 'function',
      function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
    });
    expect(sent(1).messages).toEqual([
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: 'One moment.',
        reasoning_content: 'Look it up.',
        tool_calls: [call('call_a', 'Nairobi'), call('call_b', 'Mombasa')],
      },
      { role: 'tool', content: 'sun', tool_call_id: 'call_a' },
      { role: 'tool', content: 'sun', tool_call_id: 'call_b' },
      { role: 'user', content: 'Go on.' },
    ]);
  });

  it('leaves thinking out unless it is asked for', async () => {
    bed.chat.script.push(answering({ reasoning: 'Hm.', text: 'Hello' }));
    const message = await anthropic.messages.create(ask);
    expect(message.content).toEqual([{ type: 'text', text: 'Hello' }]);
  });

  it.each([
    ['not billed', 'left out', {}, 0],
    ['billed', 'shown', { thinking: { type: 'enabled' as const, budget_tokens: 1_024 } }, 2],
  ])('is %s when it breaks off in thinking that is %s', async (_billed, _shown, thinking, tokens) => {
    const completionTokens = async (): Promise<number> => {
      const report = await bed.fetch('/v1/usage?start=2026-01-01');
      return ((await report.json()) as { totals: { completion_tokens: number } }).totals.completion_tokens;
    };
    const before = await completionTokens();
    bed.chat.script.push((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const [role, first, second] = turnChunks({ reasoning: 'Hm. Well.' });
      const chunks = [role, first, second].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`);
      response.write(chunks.join(''), () => response.destroy());
    });
    const stream = anthropic.messages.stream({ ...ask, max_tokens: 2_000, ...thinking });
    await expect(stream.finalMessage()).rejects.toThrow(Anthropic.APIError);
    expect((await completionTokens()) - before).toBe(tokens);
  });

  it('leaves out the line that changes with every request', async () => {
    const billing = (id: string) => `x-anthropic-billing-header: cc_version=2.1; cch=${id};`;
    await anthropic.messages.create({
      ...ask,
      system: [
        { type: 'text', text: billing('a') },
        { type: 'text', text: 'You are an agent.' },
      ],
    });
    await anthropic.messages.create({ ...ask, system: `${billing('b')}\nYou are an agent.` });
    expect(sent(0).messages).toEqual(sent(1).messages);
    expect(sent(0).messages[0]).toEqual({ role: 'system', content: 'You are an agent.' });
  });

  it('names the stop sequence and an answer that was cut off', async () => {
    bed.chat.script.push(
      answering({ text: 'One', stopReason: 'END' }),
      answering({ text: 'One two', finish: 'length' }),
    );
    const stopped = await anthropic.messages.create({ ...ask, stop_sequences: ['END'] });
    expect(stopped).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'END' });
    expect(await anthropic.messages.create(ask)).toMatchObject({ stop_reason: 'max_tokens' });
  });

  it('maps the choice of tools and leaves out tools that a server runs', async () => {
    const weather = { ...WEATHER, strict: true };
    const tools = [weather, { type: 'web_search_20250305', name: 'web_search' }] as Anthropic.Messages.ToolUnion[];
    await anthropic.messages.create({
      ...ask,
      tools,
      tool_choice: { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true },
    });
    expect(sent().tools).toMatchObject([{ function: { name: 'get_weather', strict: true } }]);
    expect(sent().tools).toHaveLength(1);
    expect(sent().tool_choice).toEqual({ type: 'function', function: { name: 'get_weather' } });
    expect(sent().parallel_tool_calls).toBe(false);
    await anthropic.messages.create({ ...ask, tools, tool_choice: { type: 'any' } });
    expect(sent(1).tool_choice).toBe('required');
    for (const choice of [{ type: 'tool' }, { type: 'tool', name: '' }, { type: 'tool', name: null }]) {
      const refused = await bed.post('/v1/messages', { ...ask, tool_choice: choice });
      expect(refused.status).toBe(400);
      expect(await refused.text()).toContain("The parameter 'tool_choice.name' is required.");
    }
  });

  it('refuses blocks of a tool result that it cannot read, and skips those of other tools', async () => {
    const post = (content: unknown) => {
      const result = { type: 'tool_result', tool_use_id: 'call_a', content };
      return bed.post('/v1/messages', { ...ask, messages: [{ role: 'user', content: [result] }] });
    };
    const document = { type: 'document', source: { type: 'base64', media_type: 7, data: 'aGk=' } };
    for (const block of [null, 'Sunny', {}, { type: 3 }, document]) {
      const refused = await post([block]);
      expect(refused.status).toBe(400);
      expect(await refused.text()).toContain("'messages[0].content[0].content[0]' must be a block");
    }
    expect((await post([{ type: 'search_result', source: 'https://example.com' }])).status).toBe(200);
  });

  it('lowers a longest answer that the model cannot give', async () => {
    await anthropic.messages.stream({ ...ask, max_tokens: 10_000_000 }).finalMessage();
    expect(sent().max_tokens).toBe(8192);
  });

  it('takes the key in either header, ?beta=true, and HEAD /', async () => {
    const post = (headers: Record<string, string>) =>
      fetch(`${bed.address}/v1/messages?beta=true`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'anthropic-version': '2023-06-01', ...headers },
        body: JSON.stringify(ask),
      });
    expect((await post({ 'x-api-key': KEY })).status).toBe(200);
    expect((await post({ authorization: `Bearer ${KEY}` })).status).toBe(200);
    expect((await post({ 'x-api-key': KEY, authorization: '' })).status).toBe(200);
    expect((await post({ 'x-api-key': KEY, authorization: 'Bearer ' })).status).toBe(200);
    expect((await post({ 'x-api-key': KEY, authorization: 'Bearer wrong' })).status).toBe(401);
    const refused = await post({ 'x-api-key': 'wrong' });
    expect(refused.status).toBe(401);
    expect(await refused.json()).toEqual({
      type: 'error',
      error: { type: 'authentication_error', message: expect.stringContaining('API key') },
      request_id: refused.headers.get('request-id'),
    });
    expect((await fetch(`${bed.address}/`, { method: 'HEAD' })).status).toBeLessThan(400);
  });

  it('has the errors of that API', async () => {
    const refused = async (body: object) => {
      const answer = await bed.post('/v1/messages', body);
      return {
        status: answer.status,
        body: (await answer.json()) as { type: string; error: { type: string; message: string } },
      };
    };
    expect(await refused({ model: CHAT })).toMatchObject({
      status: 400,
      body: { type: 'error', error: { type: 'invalid_request_error' } },
    });
    expect(await refused({ ...ask, model: 'no/such' })).toMatchObject({
      status: 404,
      body: { error: { type: 'not_found_error' } },
    });
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'aGk=' } };
    expect(await refused({ ...ask, messages: [{ role: 'user', content: [image] }] })).toMatchObject({ status: 422 });
    bed.chat.script.push(
      answerJson(400, { error: { message: "This model's maximum context length is 5 tokens.", code: 400 } }),
    );
    expect((await refused(ask)).body.error.message).toMatch(/^prompt is too long/);
    Object.assign(bed.chat.behaviour, { cutAfterChunks: 3 });
    const text = await (await bed.post('/v1/messages', { ...ask, stream: true })).text();
    Object.assign(bed.chat.behaviour, { cutAfterChunks: undefined });
    expect(text).toMatch(/event: error\ndata: \{"type":"error","error":\{"type":"overloaded_error"/);
  });

  it('counts the tokens of the whole chat at the engine', async () => {
    bed.chat.script.push(answerJson(200, { count: 17 }));
    const { max_tokens: _, ...prompt } = ask;
    expect(await anthropic.messages.countTokens({ ...prompt, tools: [WEATHER] })).toEqual({ input_tokens: 17 });
    expect(bed.chat.requests[0]).toMatchObject({ path: '/tokenize', body: { tools: [{ type: 'function' }] } });
  });
});

describe('count_tokens behind another Baobab', () => {
  it('asks it, and it counts with the template of its upstream', async () => {
    await using outer = await startHttpBed({
      upstreams: [
        { model: CHAT, url: bed.address, kind: 'baobab', api_key: KEY },
        { model: EMBEDDING, url: bed.embedding.url, kind: 'tei' },
      ],
    });
    const client = new Anthropic({ baseURL: outer.address, apiKey: KEY, maxRetries: 0 });
    const body = {
      model: CHAT,
      system: 'Be brief.',
      tools: [WEATHER],
      messages: [
        { role: 'user' as const, content: 'Weather in Oslo?' },
        {
          role: 'assistant' as const,
          content: [
            { type: 'thinking' as const, thinking: 'Ask.', signature: 'baobab' },
            { type: 'text' as const, text: 'I look.' },
            { type: 'tool_use' as const, id: 'call_1', name: 'get_weather', input: { city: 'Oslo' } },
          ],
        },
        { role: 'user' as const, content: [{ type: 'tool_result' as const, tool_use_id: 'call_1', content: 'Sun' }] },
      ],
    };
    const counted = (tokens: number) => answerJson(200, { count: tokens, tokens: [] });
    bed.chat.script.push(counted(41), counted(41));
    const direct = await anthropic.messages.countTokens(body);
    expect(await client.messages.countTokens(body)).toEqual(direct);
    expect(bed.chat.requests.map(({ path }) => path)).toEqual(['/tokenize', '/tokenize']);
    expect(sent(1)).toEqual(sent(0));
  });
});
