import { describe, expect, it } from 'vitest';
import type { ChatMessage, ChatRequest } from '../engines/engine.ts';
import { checkPromptSize } from './prompt-size.ts';

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
    expect(() => checkPromptSize(small, request)).toThrow(
      expect.objectContaining({ code: 'context_length_exceeded', param, message: expect.stringContaining('2048') }),
    );
  });

  it('more messages than any conversation has', () => {
    expect(() => checkPromptSize(large, messages(10_001))).toThrow(
      expect.objectContaining({ code: 'too_many_inputs', param: 'messages' }),
    );
    expect(() => checkPromptSize(large, messages(10_000))).not.toThrow();
  });

  it('but not a prompt that may fit', () => {
    expect(() => checkPromptSize(small, messages(2048, 'x'.repeat(128)))).not.toThrow();
    expect(() => checkPromptSize(small, { prompt: { text: 'x'.repeat(262_144) } })).not.toThrow();
  });
});
