import { describe, expect, it } from 'vitest';
import type { TokenLogprob } from '../../../engines/engine.ts';
import { createTextChunkWriter, textCompletionToWire } from './answer.ts';

const head = { id: 'cmpl_1', created: 1, model: 'acme/model' };
const scored = (token: string): TokenLogprob => ({ token, bytes: [...Buffer.from(token)], logprob: -1, top: [] });
const parse = (text: string) => JSON.parse(text.slice('data: '.length));

describe('text completions on the wire', () => {
  it('give the offset of each token in the whole text, also across chunks', () => {
    const whole = textCompletionToWire(
      head,
      [
        {
          text: 'one two',
          reasoning: '',
          toolCalls: [],
          logprobs: [scored('one'), scored(' two')],
          finishReason: 'stop',
        },
      ],
      { promptTokens: 1, completionTokens: 2, cachedTokens: 0 },
      true,
    );
    expect(whole.choices[0]?.logprobs?.text_offset).toEqual([0, 3]);

    const chunks = createTextChunkWriter(head, { withUsage: false, withLogprobs: true });
    const offsets = (choice: number, token: string) =>
      parse(chunks.event(choice, { type: 'text-delta', text: token, logprobs: [scored(token)] })).choices[0].logprobs
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
    const plain = createTextChunkWriter(head, { withUsage: false, withLogprobs: false });
    expect(parse(plain.event(0, end))).not.toHaveProperty('usage');
    const counted = createTextChunkWriter(head, { withUsage: true, withLogprobs: false });
    expect(parse(counted.event(0, end))).toMatchObject({ usage: null, choices: [{ finish_reason: 'length' }] });
    expect(parse(counted.usage(end.usage))).toMatchObject({ choices: [], usage: { total_tokens: 3 } });
  });
});
