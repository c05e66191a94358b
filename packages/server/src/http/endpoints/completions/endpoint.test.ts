import type { TokenLogprob } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { completionCommand, TextWriter } from './endpoint.ts';

const writerOf = (body: { stream?: boolean; stream_options?: { include_usage: boolean } }, withLogprobs = false) =>
  new TextWriter({
    idPrefix: 'cmpl',
    body: { model: 'acme/model', ...body },
    command: { choices: 2, request: { prompt: { text: '' }, logprobs: withLogprobs ? { top: 0 } : undefined } },
    clock: { now: () => 1_000 },
  });
const scored = (token: string): TokenLogprob => ({ token, bytes: [...Buffer.from(token)], logprob: -1, top: [] });
const parse = (text: string) => JSON.parse(text.slice('data: '.length));

describe('text completions on the wire', () => {
  it('give the offset of each token in the whole text, also across chunks', () => {
    const whole = writerOf({}, true);
    for (const token of ['one', ' two']) {
      whole.take(0, { type: 'text-delta', text: token, logprobs: [scored(token)] });
    }
    whole.end({ promptTokens: 1, completionTokens: 2, cachedTokens: 0 });
    expect(whole.answer().choices[0]).toMatchObject({ text: 'one two', logprobs: { text_offset: [0, 3] } });

    const chunks = writerOf({ stream: true }, true);
    const offsets = (choice: number, token: string) =>
      parse(chunks.take(choice, { type: 'text-delta', text: token, logprobs: [scored(token)] })).choices[0].logprobs
        .text_offset;
    expect([offsets(0, 'one'), offsets(1, 'uno'), offsets(0, ' two'), offsets(1, ' due')]).toEqual([
      [0],
      [0],
      [3],
      [3],
    ]);
  });

  it('have usage only if it was asked for', () => {
    const end = {
      type: 'end' as const,
      reason: 'length' as const,
      usage: { promptTokens: 1, completionTokens: 2, cachedTokens: 0 },
    };
    const plain = writerOf({ stream: true });
    expect(parse(plain.take(0, end))).not.toHaveProperty('usage');
    const counted = writerOf({ stream: true, stream_options: { include_usage: true } });
    expect(parse(counted.take(0, end))).toMatchObject({ usage: null, choices: [{ finish_reason: 'length' }] });
    expect(parse(counted.end(end.usage).split('\n\n')[0] ?? '')).toMatchObject({
      choices: [],
      usage: { total_tokens: 3 },
    });
  });
});

describe('a completion request', () => {
  it('accepts a text, a list of one text, or token ids, with 16 tokens by default', () => {
    const prompts = ['a', ['a'], [1, 2]].map(
      (prompt) => completionCommand({ model: 'm', prompt: prompt as string | string[] | number[] }).request,
    );
    expect(prompts.map(({ prompt }) => prompt)).toEqual([{ text: 'a' }, { text: 'a' }, { tokens: [1, 2] }]);
    expect(prompts[0]?.maxTokens).toBe(16);
  });

  it('accepts only one prompt', () => {
    expect(() => completionCommand({ model: 'm', prompt: ['a', 'b'] })).toThrow(
      expect.objectContaining({ status: 422, param: 'prompt', message: expect.stringContaining('one is accepted') }),
    );
  });

  it('refuses echo, suffix and best_of by name', () => {
    for (const [field, value] of Object.entries({ echo: true, suffix: 'x', best_of: 3 })) {
      expect(() => completionCommand({ model: 'm', prompt: 'a', [field]: value })).toThrow(`'${field}'`);
    }
  });
});
