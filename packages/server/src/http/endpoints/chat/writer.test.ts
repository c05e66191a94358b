import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { CompletionWriter } from './endpoint.ts';

const writerOf = (body: { stream?: boolean; stream_options?: { include_usage: boolean } }) =>
  new CompletionWriter({
    idPrefix: 'chatcmpl',
    body: { model: 'acme/"model"', ...body },
    command: { choices: 1, request: { prompt: { messages: [] } } },
    clock: { now: () => 1_000 },
  });
const usage = { promptTokens: 10, completionTokens: 4, cachedTokens: 6 };
const chunksOf = (text: string) =>
  text
    .split('\n\n')
    .filter((each) => each !== '' && each !== 'data: [DONE]')
    .map((each) => JSON.parse(each.slice('data: '.length)));

const CALLS: ChatEvent[] = [
  { type: 'start', promptTokens: 10, cachedTokens: 6 },
  { type: 'tool-call-delta', index: 0, id: 'call_1', name: 'a', argumentsDelta: '' },
  { type: 'tool-call-delta', index: 0, argumentsDelta: '{"x":' },
  { type: 'tool-call-delta', index: 0, argumentsDelta: '1}' },
  { type: 'tool-call-delta', index: 1, id: 'call_2', name: 'b', argumentsDelta: '{}' },
  { type: 'end', reason: 'tool_calls', usage },
];

describe('chat answers on the wire', () => {
  it('have whole tool calls, with null instead of text', () => {
    const writer = writerOf({});
    for (const event of CALLS) writer.take(0, event);
    writer.end(usage);
    const answer = writer.answer();
    expect(answer.choices[0]?.message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'a', arguments: '{"x":1}' } },
        { id: 'call_2', type: 'function', function: { name: 'b', arguments: '{}' } },
      ],
    });
    expect(answer.usage).toEqual({
      prompt_tokens: 10,
      completion_tokens: 4,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 6 },
      cache_read_tokens: 6,
    });
  });

  it('stream tool calls with their index, and with id, type and name only at first', () => {
    const writer = writerOf({ stream: true, stream_options: { include_usage: true } });
    const chunks = chunksOf(CALLS.map((event) => writer.take(0, event)).join('') + writer.end(usage));
    const deltas = chunks.flatMap(({ choices }) => choices.map((choice: { delta: object }) => choice.delta));
    expect(deltas).toEqual([
      { role: 'assistant', content: '', refusal: null },
      { tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'a', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"x":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '1}' } }] },
      { tool_calls: [{ index: 1, id: 'call_2', type: 'function', function: { name: 'b', arguments: '{}' } }] },
      {},
    ]);
    expect(chunks.at(-2)?.choices[0].finish_reason).toBe('tool_calls');
    expect(chunks.at(-1)).toMatchObject({ model: 'acme/"model"', choices: [], usage: { total_tokens: 14 } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  it('send the role once for each choice, even without text', () => {
    const writer = writerOf({ stream: true });
    const text = [
      writer.take(1, { type: 'text-delta', text: 'a "quote"\n' }),
      writer.take(0, { type: 'end', reason: 'stop', usage }),
      writer.take(1, { type: 'end', reason: 'length', usage }),
    ].join('');
    expect(chunksOf(text).map(({ choices: [{ index, delta }] }) => [index, delta.role ?? delta.content ?? ''])).toEqual(
      [
        [1, 'assistant'],
        [1, 'a "quote"\n'],
        [0, 'assistant'],
        [0, ''],
        [1, ''],
      ],
    );
    expect(chunksOf(text)[0]).not.toHaveProperty('usage');
  });
});
