import { expect, it } from 'vitest';
import { initialSettings, lastAsked, messagesOf, requestBody, settingsError, type Turn } from './conversation.ts';

const answer = (text: string) => ({ model: 'm', text, toolCalls: [] });
const call = { id: 'call_1', name: 'get_weather', arguments: '{"city":"Lagos"}' };

it('gives each side its own answers', () => {
  const turns: Turn[] = [
    { id: 1, text: 'Hi', answers: { a: answer('from a'), b: answer('from b') } },
    { id: 2, text: 'More', answers: {} },
  ];
  expect(messagesOf(turns, 'b', 'Be brief.')).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'from b' },
    { role: 'user', content: 'More' },
  ]);
});

it('shows the last request without its answer', () => {
  const turns: Turn[] = [
    { id: 1, text: 'Hi', answers: { a: answer('Hello') } },
    { id: 2, text: 'More', answers: { a: answer('Sure') } },
  ];
  expect(messagesOf(lastAsked(turns), 'a', '')).toEqual([
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Hello' },
    { role: 'user', content: 'More' },
  ]);
});

it('sends the results of tools after the calls', () => {
  const turns: Turn[] = [
    { id: 1, text: 'Weather?', answers: { a: { ...answer(''), toolCalls: [call] } } },
    { id: 2, results: { side: 'a', values: { call_1: '31 °C' } }, answers: {} },
  ];
  expect(messagesOf(turns, 'a', '')).toEqual([
    { role: 'user', content: 'Weather?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: call.name, arguments: call.arguments } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: '31 °C' },
  ]);
});

it('sends only settings that are set', () => {
  const turns: Turn[] = [{ id: 1, text: 'Hi', answers: {} }];
  expect(requestBody('m', turns, 'a', initialSettings)).toEqual({
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  const settings = { ...initialSettings, seed: '7', temperature: '0', format: 'json_schema' as const, schema: '{}' };
  expect(requestBody('m', turns, 'a', settings)).toMatchObject({
    seed: 7,
    temperature: 0,
    response_format: { type: 'json_schema', json_schema: { schema: {} } },
  });
});

it('names the field with broken JSON', () => {
  expect(settingsError({ ...initialSettings, tools: '[' })).toHaveProperty('tools');
  expect(settingsError({ ...initialSettings, format: 'json_schema', schema: '{' })).toHaveProperty('schema');
  expect(settingsError(initialSettings)).toEqual({});
});
