import { expect, it } from 'vitest';
import { answerText } from './request-text.ts';

const JSON_TYPE = 'application/json; charset=utf-8';
const EVENTS = 'text/event-stream; charset=utf-8';
const events = (...data: unknown[]) => data.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('');

it.each([
  ['chat', { choices: [{ message: { content: 'Hi' } }, { message: { content: 'Ho' } }] }, 'Hi\nHo'],
  ['tool calls', { choices: [{ message: { content: null, tool_calls: [{ id: 1 }] } }] }, '{"id":1}'],
  ['completions', { choices: [{ text: 'and so on' }] }, 'and so on'],
  ['responses', { output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hi' }] }] }, 'Hi'],
  [
    'messages',
    {
      content: [
        { type: 'text', text: 'Hi' },
        { type: 'tool_use', name: 'f', input: {} },
      ],
    },
    'Hi\n{"name":"f","input":{}}',
  ],
  ['transcriptions', { text: 'one two' }, 'one two'],
  ['embeddings', { data: [{ embedding: [1, 2] }] }, null],
  ['rerank', { results: [{ index: 0, relevance_score: 0.5 }] }, null],
])('finds the text of %s', (_name, body, text) => {
  expect(answerText(JSON.stringify(body), JSON_TYPE)).toBe(text);
});

it('joins the pieces of streams', () => {
  const chat = [
    { choices: [{ delta: { role: 'assistant' } }] },
    ...['He', 'llo'].map((content) => ({ choices: [{ delta: { content } }] })),
  ];
  expect(answerText(`: keep-alive\n\n${events(...chat)}data: [DONE]\n\n`, EVENTS)).toBe('Hello');
  const responses = [
    { type: 'response.output_text.delta', delta: 'Hel' },
    { type: 'response.output_text.delta', delta: 'lo' },
    { type: 'response.output_text.done', text: 'Hello' },
  ];
  expect(answerText(events(...responses), EVENTS)).toBe('Hello');
  const messages = [
    { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Hello' } },
    { type: 'message_stop' },
  ];
  expect(answerText(events(...messages), EVENTS)).toBe('Hello');
});

it('takes plain text as it is, and survives a body that was cut', () => {
  expect(answerText('1\n00:00', 'text/plain; charset=utf-8')).toBe('1\n00:00');
  expect(answerText('{"choices": [{"mess', JSON_TYPE)).toBeNull();
});
