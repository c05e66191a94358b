import type { ChatMessage, ChatRequest } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { type ChatCommand, checkPromptSizes, reservedPromptTokens, withDocuments } from './chat-prompt.ts';

const check = (entry: Parameters<typeof checkPromptSizes>[0], request: ChatRequest, more: Partial<ChatCommand> = {}) =>
  checkPromptSizes(entry, { model: 'm', choices: 1, request, ...more });

const document = (message: number, at: number) => ({
  source: { fileId: 'file_1' },
  tag: 'file' as const,
  field: 'f',
  message,
  at,
});
const image = (message: number, at: number) => ({ source: { url: 'data:' }, field: 'i', message, at });
const command = (changes: Partial<ChatCommand>): ChatCommand => ({
  model: 'acme/chat',
  choices: 1,
  request: {
    prompt: {
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'user', content: 'before after' },
      ],
    },
  },
  ...changes,
});

describe('withDocuments', () => {
  it('puts texts into their places and moves the images behind them', () => {
    const given = command({
      documents: [document(1, 7), document(1, 12)],
      images: [image(0, 5), image(1, 3), image(1, 9)],
    });
    const { request, images, documents } = withDocuments(given, ['<one>', '<two>']);
    expect(request.prompt).toEqual({
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'user', content: 'before <one>after<two>' },
      ],
    });
    expect(images?.map(({ message, at }) => [message, at])).toEqual([
      [0, 5],
      [1, 3],
      [1, 14],
    ]);
    expect(documents).toBeUndefined();
  });

  it('adds documents that are images to the images, in order', () => {
    const given = command({ documents: [document(0, 2), document(0, 5)], images: [image(1, 0)] });
    const { images, request } = withDocuments(given, [{ source: { fileId: 'file_1' }, field: 'f' }, '<text>']);
    expect(images?.map(({ message, at, source }) => [message, at, source])).toEqual([
      [0, 2, { fileId: 'file_1' }],
      [1, 0, { url: 'data:' }],
    ]);
    expect(request.prompt).toMatchObject({ messages: [{ content: 'Hello<text>' }, {}] });
  });
});

const small = { contextLength: 2048 };
const large = { contextLength: 131_072 };
const messages = (count: number, content = ''): ChatRequest => ({
  prompt: { messages: new Array<ChatMessage>(count).fill({ role: 'user', content }) },
});
const tool = (description: string) => ({ ...messages(1), tools: [{ name: 'look', description }] });
const toolCall = (text: string): ChatRequest => ({
  prompt: {
    messages: [{ role: 'assistant', content: '', toolCalls: [{ id: 'call', name: 'look', arguments: text }] }],
  },
});

describe('the estimate of a prompt', () => {
  const long = 'x'.repeat(4_000);
  const assistant = (calls: ChatMessage['toolCalls']): ChatRequest => ({
    prompt: { messages: [{ role: 'assistant', content: '', toolCalls: calls }] },
  });

  it.each<[string, ChatRequest]>([
    ['the content of a message', messages(1, long)],
    ['the arguments of a call', assistant([{ id: 'call', name: 'look', arguments: long }])],
    ['the name of a call', assistant([{ id: 'call', name: long, arguments: '' }])],
    ['the id of a call', assistant([{ id: long, name: 'look', arguments: '' }])],
    ['the id that a tool message answers', { prompt: { messages: [{ role: 'tool', content: '', toolCallId: long }] } }],
    ['the name of a speaker', { prompt: { messages: [{ role: 'user', content: '', name: long }] } }],
    ['tools', tool(long)],
    ['the schema of the answer', { ...messages(1), format: { type: 'json_schema', schema: { title: long } } }],
    ['the name of the schema', { ...messages(1), format: { type: 'json_schema', name: long, schema: {} } }],
    ['stop sequences', { ...messages(1), stop: [long] }],
    ['the chosen tool', { ...messages(1), toolChoice: { name: long } }],
    ['a text', { prompt: { text: long } }],
    ['tokens', { prompt: { tokens: new Array<number>(1_000).fill(1) } }],
  ])('counts %s', (_, request) => {
    expect(reservedPromptTokens(request)).toBeGreaterThanOrEqual(1_000);
    expect(reservedPromptTokens(request)).toBeLessThan(1_050);
  });
});

describe('a prompt that cannot fit is refused before an engine gets it', () => {
  it.each<[string, ChatRequest, string]>([
    ['one long message', messages(1, 'x'.repeat(262_145)), 'messages'],
    ['many messages', messages(400_000), 'messages'],
    ['many messages that are long together', messages(100, 'x'.repeat(2_700)), 'messages'],
    ['the arguments of a call', toolCall('x'.repeat(262_145)), 'messages'],
    [
      'the name of a speaker',
      { prompt: { messages: [{ role: 'user', content: '', name: 'x'.repeat(262_145) }] } },
      'messages',
    ],
    ['a long text', { prompt: { text: 'x'.repeat(262_145) } }, 'prompt'],
    ['many tokens', { prompt: { tokens: new Array<number>(2049).fill(1) } }, 'prompt'],
    ['large tools', tool('x'.repeat(262_145)), 'tools'],
  ])('%s', (_, request, param) => {
    expect(() => check(small, request)).toThrow(
      expect.objectContaining({ code: 'context_length_exceeded', param, message: expect.stringContaining('2048') }),
    );
  });

  it('more messages than any conversation has', () => {
    expect(() => check(large, messages(10_001))).toThrow(
      expect.objectContaining({ code: 'too_many_inputs', param: 'messages' }),
    );
    expect(() => check(large, messages(10_000))).not.toThrow();
  });

  it('the one of several prompts that is too long', () => {
    const prompts = [{ text: 'x' }, { text: 'x'.repeat(262_145) }];
    expect(() => check(small, { prompt: { text: 'x' } }, { prompts })).toThrow(
      expect.objectContaining({ param: 'prompt[1]' }),
    );
  });

  it('but not a prompt that may fit', () => {
    expect(() => check(small, messages(2048, 'x'.repeat(128)))).not.toThrow();
    expect(() => check(small, { prompt: { text: 'x'.repeat(262_144) } })).not.toThrow();
  });
});
