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

describe('log probabilities of completions', () => {
  const logprobsOf = (found: readonly TokenLogprob[]) => {
    const writer = writerOf({}, true);
    writer.take(0, { type: 'text-delta', text: 'x', logprobs: found });
    writer.end({ promptTokens: 1, completionTokens: 2, cachedTokens: 0 });
    return writer.answer().choices[0]?.logprobs;
  };

  it('have the chosen token among the likeliest, also if none were asked for', () => {
    const other = { token: 'b', bytes: [98], logprob: -0.5 };
    expect(logprobsOf([{ ...scored('a'), top: [other] }, scored('c')])).toMatchObject({
      top_logprobs: [{ b: -0.5, a: -1 }, { c: -1 }],
    });
  });

  it('tell parts of a character by their bytes', () => {
    const part = (...bytes: number[]) => ({ token: '�', bytes, logprob: -1 });
    const first = { ...part(0xf0, 0x9f), top: [part(0xf0, 0x9f), part(0xe2, 0x80)] };
    expect(logprobsOf([first, { ...part(0x8c, 0xb3), top: [] }, scored('a')])).toMatchObject({
      tokens: ['bytes:\\xf0\\x9f', 'bytes:\\x8c\\xb3', 'a'],
      top_logprobs: [{ 'bytes:\\xf0\\x9f': -1, 'bytes:\\xe2\\x80': -1 }, {}, { a: -1 }],
      // The tree is two UTF-16 units long.
      text_offset: [0, 0, 2],
    });
  });

  it('are null for the first token of an echoed prompt', () => {
    expect(logprobsOf([{ ...scored('a'), logprob: null }, scored('b')])).toMatchObject({
      token_logprobs: [null, -1],
      top_logprobs: [null, { b: -1 }],
    });
  });
});

describe('a completion request', () => {
  it('accepts texts and token ids, one or several, with 16 tokens by default', () => {
    const commandOf = (prompt: unknown) => completionCommand({ model: 'm', prompt: prompt as string });
    const single = ['a', ['a'], [1, 2], [[1, 2]]].map(commandOf);
    expect(single.map(({ request }) => request.prompt)).toEqual([
      { text: 'a' },
      { text: 'a' },
      { tokens: [1, 2] },
      { tokens: [1, 2] },
    ]);
    expect(single[0]).toMatchObject({ prompts: undefined, request: { maxTokens: 16 } });
    expect(commandOf(['a', 'b']).prompts).toEqual([{ text: 'a' }, { text: 'b' }]);
    expect(commandOf([[1], [2, 3]]).prompts).toEqual([{ tokens: [1] }, { tokens: [2, 3] }]);
  });

  it('accepts a bounded number of prompts', () => {
    const prompt = Array.from({ length: 257 }, () => 'a');
    expect(() => completionCommand({ model: 'm', prompt })).toThrow(
      expect.objectContaining({
        status: 422,
        code: 'validation_failed',
        param: 'prompt',
        message: expect.stringContaining('256'),
      }),
    );
  });

  it('refuses by name what no engine here keeps', () => {
    const refused = {
      suffix: 'x',
      best_of: 3,
      use_beam_search: true,
      stop_token_ids: [1],
      stop_regex: 'end|stop',
      custom_logit_processor: '{}',
      ebnf: 'root ::= "a"',
      regex: 'a+',
      truncate_prompt_tokens: 4,
      add_special_tokens: false,
    };
    for (const [field, value] of Object.entries(refused)) {
      expect(() => completionCommand({ model: 'm', prompt: 'a', [field]: value })).toThrow(`'${field}'`);
    }
    const renamed = { regex: 'a+' };
    expect(() => completionCommand({ model: 'm', prompt: 'a', ...renamed })).toThrow("send 'guided_regex' instead");
    const neutral = {
      suffix: null,
      regex: null,
      use_beam_search: false,
      stop_token_ids: [],
      typical_p: 1,
      unknown: 'field',
      top_k: -1,
    };
    expect(completionCommand({ model: 'm', prompt: 'a', ...neutral })).toEqual(
      completionCommand({ model: 'm', prompt: 'a' }),
    );
  });
});
