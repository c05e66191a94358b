import { describe, expect, it } from 'vitest';
import { clientName } from '../../answer/field-names.ts';
import { generationFieldNames } from '../../generation/request.ts';
import { chatCommand } from './command.ts';
import type { ChatCompletionBody } from './schema.ts';

const ask: ChatCompletionBody = { model: 'acme/model', messages: [{ role: 'user', content: 'Hi' }] };
const tool = { type: 'function' as const, function: { name: 'weather' } };
const refusal = (change: Partial<ChatCompletionBody>): unknown => {
  try {
    return chatCommand({ ...ask, ...change });
  } catch (error) {
    return error;
  }
};

describe('a chat request', () => {
  it('joins the parts of a message and treats developer as system', () => {
    const { request } = chatCommand({
      ...ask,
      messages: [
        {
          role: 'developer',
          content: [
            { type: 'text', text: 'Be ' },
            { type: 'text', text: 'brief.' },
          ],
        },
        { role: 'assistant', content: null, tool_calls: [{ id: 'c', function: { name: 'weather', arguments: '{}' } }] },
        { role: 'tool', content: 'sunny', tool_call_id: 'c' },
      ],
    });
    expect(request.prompt).toEqual({
      messages: [
        expect.objectContaining({ role: 'system', content: 'Be brief.' }),
        expect.objectContaining({ role: 'assistant', toolCalls: [{ id: 'c', name: 'weather', arguments: '{}' }] }),
        expect.objectContaining({ role: 'tool', content: 'sunny', toolCallId: 'c' }),
      ],
    });
  });

  it('accepts null for fields that are not set', () => {
    const unset = {
      temperature: null,
      max_tokens: null,
      stop: null,
      tools: null,
      tool_choice: null,
      response_format: null,
    };
    expect(chatCommand({ ...ask, ...unset })).toEqual(chatCommand(ask));
  });

  it('keeps every field of a tool', () => {
    const { request } = chatCommand({
      ...ask,
      tools: [
        { type: 'function', function: { name: 'weather', strict: true, ...{ cache_control: 'ephemeral' } } },
        tool,
      ],
    });
    expect(request.tools?.[0]?.extra).toEqual({ strict: true, cache_control: 'ephemeral' });
    expect(request.tools?.[1]?.extra).toBeUndefined();
  });

  it('prefers the newer name of the limit', () => {
    const command = chatCommand({ ...ask, max_tokens: 5, max_completion_tokens: 9 });
    expect(command.request.maxTokens).toBe(9);
  });

  it('names the limit of an answer in errors as the client did', () => {
    const nameFor = (body: object) => clientName(['maxTokens'], generationFieldNames(body));
    expect(nameFor({ max_tokens: 5, max_completion_tokens: 9 })).toBe('max_completion_tokens');
    expect(nameFor({ max_tokens: 5, max_completion_tokens: null })).toBe('max_tokens');
    expect(nameFor({})).toBe('max_tokens');
  });

  it('accepts a schema in json_schema and in json_object', () => {
    const schema = { type: 'object' };
    const format = (response_format: NonNullable<ChatCompletionBody['response_format']>) =>
      chatCommand({ ...ask, response_format }).request.format;
    expect(format({ type: 'json_object' })).toEqual({ type: 'json_object' });
    expect(format({ type: 'json_object', schema })).toEqual({ type: 'json_schema', schema });
    expect(format({ type: 'json_schema', json_schema: { name: 'x', schema } })).toEqual({
      type: 'json_schema',
      name: 'x',
      schema,
    });
    expect(format({ type: 'json_schema', json_schema: { schema, strict: false } })).toMatchObject({ strict: false });
    expect(format({ type: 'text' })).toBeUndefined();
  });

  it('accepts what the answer has to be in the words of vLLM and llama-server', () => {
    const format = (fields: object) => chatCommand({ ...ask, ...fields }).request.format;
    const schema = { type: 'object' };
    const forms = [
      [{ structured_outputs: { choice: ['a', 'b'] } }, { type: 'choice', texts: ['a', 'b'] }],
      [{ guided_choice: ['a'] }, { type: 'choice', texts: ['a'] }],
      [{ guided_regex: '[0-9]{4}' }, { type: 'regex', pattern: '[0-9]{4}' }],
      [{ guided_json: JSON.stringify(schema) }, { type: 'json_schema', schema }],
      [{ structured_outputs: { json: schema } }, { type: 'json_schema', schema }],
      [{ structured_outputs: { json_object: true } }, { type: 'json_object' }],
      [{ json_schema: schema }, { type: 'json_schema', schema }],
      [{ grammar: 'root ::= "a"' }, { type: 'grammar', grammar: 'root ::= "a"' }],
      [{ grammar: '', guided_json: null, structured_outputs: {} }, undefined],
    ];
    for (const [fields, wanted] of forms) expect(format(fields ?? {})).toEqual(wanted);
    expect(() => format({ guided_choice: ['a'], guided_regex: 'a' })).toThrow("'guided_choice'");
  });

  it('names the format of an answer in errors as the client did', () => {
    const nameFor = (path: string[], body: object) => clientName(path, generationFieldNames(body));
    const inSchema = ['format', 'schema', 'properties', 'x'];
    expect(nameFor(['format'], { guided_regex: 'a' })).toBe('guided_regex');
    expect(nameFor(inSchema, { structured_outputs: { json: {} } })).toBe('structured_outputs.json.properties.x');
    expect(nameFor(inSchema, { response_format: { type: 'json_object', schema: {} } })).toBe(
      'response_format.schema.properties.x',
    );
    expect(nameFor(inSchema, {})).toBe('response_format.json_schema.schema.properties.x');
  });

  it.each([
    [{ guided_json: 'no JSON' }, 'guided_json'],
    [{ json_schema: '[]' }, 'json_schema'],
    [{ structured_outputs: { structural_tag: {} } }, 'structured_outputs.structural_tag'],
    [{ response_format: { type: 'json_schema', json_schema: {} } }, 'response_format'],
    [{ response_format: 5, structured_outputs: 5 }, 'response_format'],
  ])('names the fields of a body whose format cannot be used: %j', (body, name) => {
    const names = generationFieldNames(body);
    expect(clientName(['format'], names)).toBe(name);
    expect(clientName(['maxTokens'], names)).toBe('max_tokens');
  });

  it('continues a last message of the assistant', () => {
    const messages = [...ask.messages, { role: 'assistant' as const, content: 'Well' }];
    const start = (more: object) => chatCommand({ ...ask, messages, ...more }).request.answerStart;
    expect(start({ continue_final_message: true })).toBe('continued');
    expect(start({ add_generation_prompt: false })).toBe('none');
    expect(start({})).toBeUndefined();
    for (const wrong of [{ add_generation_prompt: true }, { messages: ask.messages }]) {
      expect(() => start({ continue_final_message: true, ...wrong })).toThrow("'continue_final_message'");
    }
  });

  it.each([
    ['a missing text', { messages: [{ role: 'user' as const }] }, 400, 'messages[0].content'],
    [
      'a result without its call',
      { messages: [{ role: 'tool' as const, content: 'x' }] },
      400,
      'messages[0].tool_call_id',
    ],
    [
      'a tool that is not offered',
      { tools: [tool], tool_choice: { type: 'function' as const, function: { name: 'b' } } },
      400,
      'tool_choice',
    ],
    ['a required tool without any', { tool_choice: 'required' as const }, 400, 'tool_choice'],
    ['alternatives without log probabilities', { top_logprobs: 2 }, 400, 'top_logprobs'],
    [
      'a schema without a schema',
      { response_format: { type: 'json_schema' as const, json_schema: {} } },
      400,
      'response_format.json_schema.schema',
    ],
    [
      'sound',
      { messages: [{ role: 'user' as const, content: [{ type: 'input_audio' as const }] }] },
      422,
      'messages[0].content[0]',
    ],
    ['a bias for no token', { logit_bias: { 5: 1, abc: 5 } }, 400, 'logit_bias.abc'],
    ['a bias for half a token', { logit_bias: { '1.5': 5 } }, 400, 'logit_bias.1.5'],
    ['speech', { modalities: ['text' as const, 'audio' as const] }, 422, 'modalities'],
    ['the older functions', { functions: [{ name: 'weather' }] }, 422, 'functions'],
    ['a web search', { web_search_options: {} }, 422, 'web_search_options'],
  ])('is refused with %s', (_name, change, status, param) => {
    expect(refusal(change)).toMatchObject({ status, param });
  });
});
