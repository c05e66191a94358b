import OpenAI from 'openai';
import type { Response } from 'openai/resources/responses/responses';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { answerJson } from '../../fixtures/fake-upstream.ts';
import { checkResponseStream, recordingFetch, responseEvents } from '../../fixtures/openai-schemas/recording-fetch.ts';
import { answering } from '../../fixtures/scripted-model.ts';
import { CHAT, KEY, startHttpBed } from '../http/bed.ts';

const recorded = recordingFetch();
const bed = await startHttpBed();
const openai = new OpenAI({ baseURL: `${bed.address}/v1`, apiKey: KEY, fetch: recorded.fetch, maxRetries: 0 });
afterAll(() => bed[Symbol.asyncDispose]());
afterEach(() => {
  bed.chat.script.length = 0;
  bed.chat.requests.length = 0;
  // Every answer fits the official schemas.
  recorded.check();
});

const WEATHER = {
  type: 'function' as const,
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: true,
};
const sent = (index = 0) => bed.chat.requests[index]?.body as Record<string, unknown> & { messages: object[] };
async function streamEvents(body: object) {
  const text = await (await bed.post('/v1/responses', { model: CHAT, ...body, stream: true })).text();
  checkResponseStream(text);
  return responseEvents(text);
}

describe('POST /v1/responses', () => {
  it('answers a text with every field that clients read', async () => {
    bed.chat.script.push(answering({ text: 'Nairobi is the capital.', promptTokens: 12, cachedTokens: 4 }));
    const response = await openai.responses.create({
      model: CHAT,
      instructions: 'Be brief.',
      input: 'What is the capital of Kenya?',
      metadata: { trace: '1' },
      max_output_tokens: 50,
    });
    expect(response.output_text).toBe('Nairobi is the capital.');
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      model: CHAT,
      instructions: 'Be brief.',
      max_output_tokens: 50,
      metadata: { trace: '1' },
      error: null,
      incomplete_details: null,
      previous_response_id: null,
      parallel_tool_calls: true,
      tools: [],
      tool_choice: 'auto',
      text: { format: { type: 'text' } },
      truncation: 'disabled',
      usage: { input_tokens: 12, input_tokens_details: { cached_tokens: 4 }, output_tokens: 4, total_tokens: 16 },
    });
    expect(sent().messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'What is the capital of Kenya?' },
    ]);
    expect(sent().max_tokens).toBe(50);
  });

  it('streams the events of a text in order', async () => {
    bed.chat.script.push(answering({ text: 'Hello there' }));
    const stream = openai.responses.stream({ model: CHAT, input: 'Hi' });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect((await stream.finalResponse()).output_text).toBe('Hello there');
  });

  it('tells reasoning apart and takes it back', async () => {
    bed.chat.script.push(answering({ reasoning: 'They greet me.', text: 'Hello' }), answering({ text: 'Again' }));
    const first = await openai.responses.create({
      model: CHAT,
      input: 'Hi',
      reasoning: { effort: 'low', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
    });
    const [reasoning, message] = first.output;
    expect(reasoning).toMatchObject({
      type: 'reasoning',
      content: [{ type: 'reasoning_text', text: 'They greet me.' }],
    });
    expect(message).toMatchObject({ type: 'message', content: [{ type: 'output_text', text: 'Hello' }] });
    expect(first.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
    expect(sent().reasoning_effort).toBe('low');
    // Codex keeps only the encrypted content.
    const { content: _, ...kept } = reasoning as Response['output'][number] & { content?: unknown };
    await openai.responses.create({
      model: CHAT,
      input: [{ role: 'user', content: 'Hi' }, kept as never, message as never, { role: 'user', content: 'Hi again' }],
    });
    expect(sent(1).messages[1]).toEqual({ role: 'assistant', content: 'Hello', reasoning_content: 'They greet me.' });
  });

  it('streams reasoning, a text and parallel calls as items of their own', async () => {
    bed.chat.script.push(
      answering({
        reasoning: 'Two cities.',
        text: 'Let me look.',
        calls: [
          { id: 'call_a', name: 'get_weather', arguments: { city: 'Nairobi' } },
          { id: 'call_b', name: 'get_weather', arguments: { city: 'Mombasa' } },
        ],
      }),
    );
    const events = await streamEvents({ input: 'Weather?', tools: [WEATHER] });
    const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
    expect(done).toMatchObject([
      { type: 'reasoning', status: 'completed' },
      { type: 'message', status: 'completed' },
      { type: 'function_call', call_id: 'call_a', name: 'get_weather', arguments: '{"city":"Nairobi"}' },
      { type: 'function_call', call_id: 'call_b', name: 'get_weather', arguments: '{"city":"Mombasa"}' },
    ]);
    const last = events.at(-1) as unknown as { response: Response };
    expect(last.response.output).toEqual(done);
  });

  it('sends a tool loop to the model as a chat, items without status included', async () => {
    bed.chat.script.push(answering({ text: 'Sunny.' }));
    await bed.post('/v1/responses', {
      model: CHAT,
      tools: [WEATHER],
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'Weather in Nairobi?' }] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
        { type: 'function_call', call_id: 'call_a', name: 'get_weather', arguments: '{"city":"Nairobi"}' },
        { type: 'function_call_output', call_id: 'call_a', output: [{ type: 'input_text', text: 'sun' }] },
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } },
      ],
    });
    expect(sent().messages).toEqual([
      { role: 'user', content: 'Weather in Nairobi?' },
      {
        role: 'assistant',
        content: 'I look.',
        tool_calls: [
          { id: 'call_a', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Nairobi"}' } },
        ],
      },
      { role: 'tool', content: 'sun', tool_call_id: 'call_a' },
    ]);
    expect(sent().tools).toMatchObject([{ function: { name: 'get_weather', strict: true } }]);
  });

  it('gives a custom tool its free text and ignores hosted tools', async () => {
    const patch = '*** Begin Patch\n*** End Patch';
    bed.chat.script.push(
      answering({ calls: [{ id: 'call_p', name: 'apply_patch', arguments: { input: patch } }] }),
      answering({ text: 'Done.' }),
    );
    const tools = [
      {
        type: 'custom',
        name: 'apply_patch',
        description: 'Edit',
        format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
      },
      { type: 'web_search', external_web_access: false },
      { type: 'namespace', name: 'mcp', description: 'Tools', tools: [WEATHER] },
    ];
    const response = await openai.responses.create({ model: CHAT, input: 'Edit', tools: tools as never });
    expect(response.output).toMatchObject([
      { type: 'custom_tool_call', call_id: 'call_p', name: 'apply_patch', input: patch },
    ]);
    const offered = sent().tools as { function: { name: string; description: string } }[];
    expect(offered.map(({ function: { name } }) => name)).toEqual(['apply_patch']);
    expect(offered[0]?.function.description).toContain('start: "x"');
    await bed.post('/v1/responses', {
      model: CHAT,
      tools,
      input: [...response.output, { type: 'custom_tool_call_output', call_id: 'call_p', output: 'ok' }],
    });
    expect(sent(1).messages).toMatchObject([
      { tool_calls: [{ function: { name: 'apply_patch', arguments: JSON.stringify({ input: patch }) } }] },
      { role: 'tool', content: 'ok' },
    ]);
  });

  it('joins the leading system messages and marks later ones', async () => {
    await bed.post('/v1/responses', {
      model: CHAT,
      instructions: 'One.',
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Two.' }] },
        { role: 'user', content: 'Hi' },
        { role: 'developer', content: 'Three.' },
      ],
    });
    expect(sent().messages).toEqual([
      { role: 'system', content: 'One.\n\nTwo.' },
      { role: 'user', content: 'Hi' },
      { role: 'user', content: '<system-reminder>\nThree.\n</system-reminder>' },
    ]);
  });

  it('answers an empty probe', async () => {
    const response = await bed.post('/v1/responses', { model: CHAT, input: [], max_output_tokens: 1 });
    expect(response.status).toBe(200);
    expect(sent().messages).toEqual([{ role: 'user', content: '' }]);
  });

  it('marks an answer that was cut off', async () => {
    bed.chat.script.push(answering({ text: 'One two', finish: 'length' }));
    const response = await openai.responses.create({ model: CHAT, input: 'Count', max_output_tokens: 16 });
    expect(response.status).toBe('incomplete');
    expect(response.incomplete_details).toEqual({ reason: 'max_output_tokens' });
  });

  it('holds the answer to a JSON schema', async () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
    bed.chat.script.push(answering({ text: '{"a":1}' }));
    const response = await openai.responses.create({
      model: CHAT,
      input: 'JSON',
      text: { format: { type: 'json_schema', name: 'answer', schema } },
    });
    expect(response.text).toMatchObject({ format: { type: 'json_schema', name: 'answer' } });
    expect(sent().response_format).toMatchObject({ type: 'json_schema', json_schema: { name: 'answer', schema } });
    const loose = { type: 'json_schema', name: 'answer', schema, strict: false };
    await bed.post('/v1/responses', { model: CHAT, input: 'JSON', text: { format: loose } });
    expect(sent(1).response_format).toMatchObject({ json_schema: { strict: false } });
  });

  it('ends a stream that breaks with response.failed', async () => {
    Object.assign(bed.chat.behaviour, { cutAfterChunks: 3 });
    const events = await streamEvents({ input: 'Hi' });
    Object.assign(bed.chat.behaviour, { cutAfterChunks: undefined });
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' } },
    });
  });

  it('leaves out the oldest turns that do not fit, if it may', async () => {
    const tooLong = answerJson(400, {
      error: { message: "This model's maximum context length is 5 tokens.", code: 400 },
    });
    const turn = (text: string) => [
      { role: 'user' as const, content: text },
      { role: 'assistant' as const, content: 'Yes.' },
    ];
    const input = [...turn('One'), ...turn('Two'), { role: 'user' as const, content: 'Three' }];
    bed.chat.script.push(tooLong, answering({ text: 'Fits.' }));
    const response = await openai.responses.create({ model: CHAT, instructions: 'Rules.', truncation: 'auto', input });
    expect(response.output_text).toBe('Fits.');
    expect(sent(1).messages).toEqual([
      { role: 'system', content: 'Rules.' },
      ...turn('Two'),
      { role: 'user', content: 'Three' },
    ]);
    bed.chat.script.push(tooLong);
    await expect(openai.responses.create({ model: CHAT, input })).rejects.toMatchObject({ status: 422 });
  });

  it('answers the model list of Codex', async () => {
    expect(await (await bed.fetch('/v1/models?client_version=0.166.0')).json()).toMatchObject({ models: [] });
    expect(await (await bed.fetch('/v1/models')).json()).not.toHaveProperty('models');
  });

  it('names the field that is wrong as the client knows it', async () => {
    const param = async (body: object) => {
      const answer = await bed.post('/v1/responses', { model: CHAT, ...body });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      return ((await answer.json()) as { error: { param: string } }).error.param;
    };
    expect(await param({ input: [{ type: 'message', role: 'user' }] })).toBe('input[0].content');
    expect(await param({ input: [{ type: 'function_call_output', output: 'x' }] })).toBe('input[0].call_id');
    expect(await param({ input: 'x', tool_choice: { type: 'function', name: 'no' }, tools: [WEATHER] })).toBe(
      'tool_choice',
    );
    expect(await param({ input: [{ role: 'user', content: [{ type: 'input_audio' }] }] })).toBe('input[0].content[0]');
    bed.chat.script.push(
      answerJson(400, { error: { message: "This model's maximum context length is 5 tokens.", code: 400 } }),
    );
    expect(await param({ input: 'too long' })).toBe('input');
  });
});
