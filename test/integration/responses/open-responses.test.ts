import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { startFakeUpstream } from '../../fixtures/fake-upstream.ts';
import { checkOfficial } from '../../fixtures/openai-schemas/official.ts';
import { checkResponseStream, responseEvents } from '../../fixtures/openai-schemas/recording-fetch.ts';
import { pdfUrl, textPdf } from '../../fixtures/pdf.ts';
import { answering } from '../../fixtures/scripted-model.ts';
import { CHAT, EMBEDDING, startHttpBed } from '../http/bed.ts';

const VISION = 'google/gemma-3-4b-it';

/** Fields that the Open Responses specification wants in every response, beyond OpenAI's schema. */
const REQUIRED = [
  ...['id', 'object', 'created_at', 'completed_at', 'status', 'incomplete_details', 'model', 'previous_response_id'],
  ...['instructions', 'output', 'error', 'tools', 'tool_choice', 'truncation', 'parallel_tool_calls', 'text', 'top_p'],
  ...[
    'presence_penalty',
    'frequency_penalty',
    'top_logprobs',
    'temperature',
    'reasoning',
    'usage',
    'max_output_tokens',
  ],
  ...['max_tool_calls', 'store', 'background', 'service_tier', 'metadata', 'safety_identifier', 'prompt_cache_key'],
];

interface WireResponse {
  id: string;
  status: string;
  output: { type: string; [field: string]: unknown }[];
}

const model = await startFakeUpstream('vllm');
const bed = await startHttpBed({
  upstreams: [
    { model: CHAT, url: model.url, kind: 'vllm' },
    { model: VISION, url: model.url, kind: 'vllm' },
    { model: EMBEDDING, url: model.url, kind: 'vllm' },
  ],
});
afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await model.close();
});
afterEach(() => {
  model.script.length = 0;
  model.requests.length = 0;
});

async function respond(body: object): Promise<WireResponse> {
  const answer = await bed.post('/v1/responses', { model: CHAT, ...body });
  const response = (await answer.json()) as WireResponse;
  expect(answer.status, JSON.stringify(response)).toBe(200);
  checkOfficial('Response', response);
  expect(REQUIRED.filter((field) => !(field in response))).toEqual([]);
  expect(response.status).toBe('completed');
  return response;
}
const user = (content: unknown) => ({ type: 'message', role: 'user', content });
const sent = (index = 0) => (model.requests[index]?.body as { messages: object[] } | undefined)?.messages;
const TOOL = {
  type: 'function',
  name: 'get_weather',
  description: 'Weather of a place',
  parameters: { type: 'object', properties: { location: { type: 'string' } }, required: ['location'] },
};

/** The nine core tests of Open Responses' compliance suite, by their names there. */
describe('Open Responses', () => {
  it('basic-response', async () => {
    const { output } = await respond({ input: [user('Say hello in exactly 3 words.')] });
    expect(output).toMatchObject([{ type: 'message', role: 'assistant', status: 'completed' }]);
  });

  it('streaming-response', async () => {
    const answer = await bed.post('/v1/responses', { model: CHAT, input: [user('Count to 5.')], stream: true });
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = await answer.text();
    checkResponseStream(text);
    expect(responseEvents(text).at(-1)).toMatchObject({
      type: 'response.completed',
      response: { status: 'completed' },
    });
  });

  it('system-prompt', async () => {
    await respond({ input: [{ type: 'message', role: 'system', content: 'Be a pirate.' }, user('Say hello.')] });
    expect(sent()?.[0]).toEqual({ role: 'system', content: 'Be a pirate.' });
  });

  it('tool-calling', async () => {
    model.script.push(answering({ calls: [{ name: 'get_weather', arguments: { location: 'San Francisco' } }] }));
    const { output } = await respond({ input: [user('Weather?')], tools: [TOOL] });
    expect(output.map(({ type }) => type)).toEqual(['function_call']);
  });

  it('function-call-roundtrip', async () => {
    model.script.push(answering({ calls: [{ name: 'get_weather', arguments: { location: 'Oslo' } }] }));
    const input = [user('Weather?')];
    const { output } = await respond({ input, tools: [TOOL] });
    const result = { type: 'function_call_output', call_id: output[0]?.call_id, output: '{"sun":true}' };
    expect((await respond({ input: [...input, ...output, result], tools: [TOOL] })).output).toMatchObject([
      { type: 'message' },
    ]);
  });

  it('image-input', async () => {
    const image = Buffer.alloc(64, 7);
    image.write('89504e470d0a1a0a0000000d49484452', 'hex');
    image.writeUInt32BE(64, 16);
    image.writeUInt32BE(64, 20);
    const url = `data:image/png;base64,${image.toString('base64')}`;
    const content = [
      { type: 'input_text', text: 'What is in this image?' },
      { type: 'input_image', image_url: url },
    ];
    await respond({ model: VISION, input: [user(content)] });
    expect(sent()?.[0]).toMatchObject({
      content: [
        { type: 'text', text: 'What is in this image?' },
        { type: 'image_url', image_url: { url } },
      ],
    });
    expect((await bed.post('/v1/responses', { model: CHAT, input: [user(content)] })).status).toBe(422);
  });

  it('file-input', async () => {
    const content = [
      { type: 'input_text', text: 'Read the attached file and answer with its title only.' },
      {
        type: 'input_file',
        filename: 'fixture.pdf',
        file_data: pdfUrl(textPdf('Title: A file of Open Responses')),
      },
    ];
    await respond({ input: [user(content)] });
    expect(JSON.stringify(sent())).toContain('Title: A file of Open Responses');
  });

  it('multi-turn', async () => {
    const reply = { type: 'message', role: 'assistant', content: 'Hello Alice.' };
    await respond({ input: [user('My name is Alice.'), reply, user('What is my name?')] });
    expect(sent()).toHaveLength(3);
  });

  it('previous-response-id', async () => {
    const first = await respond({ input: [user('My name is Alice.')] });
    await respond({ input: [user('What is my name?')], previous_response_id: first.id });
    expect(sent(1)).toMatchObject([{ content: 'My name is Alice.' }, { role: 'assistant' }, { role: 'user' }]);
  });
});
