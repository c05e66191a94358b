import { afterEach, describe, expect, it } from 'vitest';
import type { ChatEvent, ChatRequest } from '../../../packages/core/src/engine/engine.ts';
import { collect, hello, type RemoteBench, remoteBench, textOf } from '../../fixtures/remote-bench.ts';

let bench: RemoteBench;
afterEach(() => bench.close());

const tools = [{ name: 'get_weather' }, { name: 'get_time' }];
const asking: ChatRequest = { ...hello, tools };
const delta = (content: string, finish: string | null = null): object => ({
  choices: [{ index: 0, delta: { content }, finish_reason: finish }],
});

/** The answer to a request whose text arrives in pieces of this many characters. */
async function answer(text: string, request: ChatRequest = asking, pieceLength = 5): Promise<ChatEvent[]> {
  const pieces = text.match(new RegExp(`.{1,${pieceLength}}`, 'gs')) ?? [];
  const payloads = [...pieces.map((piece) => delta(piece)), delta('', 'stop')];
  bench = await remoteBench({ upstreams: [{ behaviour: { payloads } }] });
  return collect(bench.chat(request));
}

const callOf = (events: readonly ChatEvent[]) => {
  const [first, ...rest] = events.filter((event) => event.type === 'tool-call-delta');
  return { name: first?.name, id: first?.id, json: rest.map(({ argumentsDelta }) => argumentsDelta).join('') };
};

describe('a call that an upstream passes on as text', () => {
  it.each([
    ['bare', '{"name": "get_weather", "arguments": {"city": "Paris"}}'],
    ['fenced', '```json\n{\n  "name": "get_weather",\n  "arguments": {"city": "Paris"}\n}\n```\n'],
  ])('becomes a call when it is %s', async (_, text) => {
    const events = await answer(text);
    expect(textOf(events)).toBe('');
    expect(callOf(events)).toEqual({
      name: 'get_weather',
      id: expect.stringMatching(/^call_/),
      json: '{"city": "Paris"}',
    });
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'tool_calls' });
  });

  it.each([
    ['names no offered tool', '{"name": "get_money", "arguments": {}}'],
    ['is only a part of the answer', 'I call {"name": "get_time", "arguments": {}}'],
    ['has text after it', '{"name": "get_time", "arguments": {}} and so on'],
    ['is cut', '{"name": "get_time", "arguments": {"a"'],
    ['has broken arguments', '{"name": "get_time", "arguments": {"a": b}}'],
  ])('stays text when it %s', async (_, text) => {
    const events = await answer(text);
    expect(textOf(events)).toBe(text);
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'stop' });
  });

  it.each<[string, ChatRequest]>([
    ['no tools', hello],
    ['tools that must not be called', { ...asking, toolChoice: 'none' }],
    ['a JSON answer', { ...asking, format: { type: 'json_object' } }],
    ['another tool', { ...asking, toolChoice: { name: 'get_weather' } }],
  ])('stays text when the request asks for %s', async (_, request) => {
    const text = '{"name": "get_time", "arguments": {}}';
    expect(textOf(await answer(text, request))).toBe(text);
  });

  it('stays text when the answer breaks off, and is delivered before the error', async () => {
    const payloads = ['{"name": ', '"get_time", ', '"argu'].map((text) => delta(text));
    bench = await remoteBench({ upstreams: [{ behaviour: { payloads, cutAfterChunks: 3 } }] });
    const given: ChatEvent[] = [];
    const run = async (): Promise<void> => {
      for await (const event of bench.chat(asking)) given.push(event);
    };
    await expect(run()).rejects.toMatchObject({ code: 'model_unavailable' });
    expect(textOf(given)).toBe('{"name": "get_time", "argu');
  });

  it('holds back no more text than can become a call', async () => {
    const events = await answer('{"name" is a field.', asking, 1);
    expect(events.slice(1, 11).map((event) => event.type === 'text-delta' && event.text)).toEqual([...'{"name" is']);
    expect(events.filter(({ type }) => type === 'text-delta')).toHaveLength('{"name" is a field.'.length);
  });

  it('ends the answer where a call is required and only empty lines follow', async () => {
    const call = '```json\n{"name": "get_time", "arguments": {}}\n```';
    const payloads = [call, ...Array.from({ length: 9 }, () => '\n')].map((text) => delta(text));
    // An engine that never ends.
    bench = await remoteBench({ upstreams: [{ behaviour: { payloads, stallAfterChunks: payloads.length } }] });
    const events = await collect(bench.chat({ ...asking, toolChoice: 'required' }));
    expect(callOf(events).name).toBe('get_time');
    expect(events.at(-1)).toMatchObject({ type: 'end', reason: 'tool_calls' });
  });
});
