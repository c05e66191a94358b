import type { ChatEvent } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { createReasoningSplit } from './reasoning.ts';

/** The reasoning and the answer of a text that arrives in pieces. */
function split(thinking: 'opens' | 'opened' | undefined, pieces: readonly string[], more: readonly ChatEvent[] = []) {
  const reader = createReasoningSplit(thinking);
  const events = [
    ...pieces.flatMap((text) => reader.take([{ type: 'text-delta', text }])),
    ...reader.take(more),
    ...reader.finish(),
  ];
  const joined = (type: 'reasoning-delta' | 'text-delta') =>
    events.map((event) => (event.type === type ? event.text : '')).join('');
  return { events, reasoning: joined('reasoning-delta'), text: joined('text-delta') };
}

describe('a reasoning split', () => {
  it('takes the text between the tags, however it is cut', () => {
    const whole = '<think>\nLet me see. 1 < 2.\n</think>\n\nTwo.';
    for (const size of [1, 3, 7, whole.length]) {
      const pieces = whole.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
      const { reasoning, text } = split('opens', pieces);
      expect(reasoning).toBe('Let me see. 1 < 2.');
      expect(text).toBe('Two.');
    }
  });

  it('begins inside the thoughts when the prompt has opened them', () => {
    expect(split('opened', ['Hm.', '</think>', '\n\nYes.'])).toMatchObject({ reasoning: 'Hm.', text: 'Yes.' });
  });

  it('leaves an answer without thoughts as it is', () => {
    expect(split('opens', ['<', 'b>bold</b>'])).toMatchObject({ reasoning: '', text: '<b>bold</b>' });
    expect(split(undefined, ['<think>a</think>b'])).toMatchObject({ reasoning: '', text: '<think>a</think>b' });
  });

  it('gives back what is held when the answer ends early', () => {
    expect(split('opens', ['<thi'])).toMatchObject({ reasoning: '', text: '<thi' });
    expect(split('opens', ['<think>cut off </thi'])).toMatchObject({ reasoning: 'cut off </thi', text: '' });
  });

  it('passes a call on after the thoughts', () => {
    const call: ChatEvent = { type: 'tool-call-delta', index: 0, id: 'a', name: 'f', argumentsDelta: '' };
    const { events } = split('opens', ['<think>Call it.</think>\n\n'], [call]);
    expect(events).toEqual([{ type: 'reasoning-delta', text: 'Call it.' }, call]);
  });

  it('keeps the log probabilities of the answer only', () => {
    const reader = createReasoningSplit('opens');
    const logprob = { token: 'x', bytes: [120], logprob: -1, top: [] };
    const events = ['<think>', 'a', '</think>', 'x'].flatMap((text) =>
      reader.take([{ type: 'text-delta', text, logprobs: [logprob] }]),
    );
    expect(events).toEqual([
      { type: 'reasoning-delta', text: 'a' },
      { type: 'text-delta', text: 'x', logprobs: [logprob] },
    ]);
  });
});
