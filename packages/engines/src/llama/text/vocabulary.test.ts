import { describe, expect, it } from 'vitest';
import { createVocabulary } from './vocabulary.ts';

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

describe('createVocabulary', () => {
  it('reads sentence-piece tokens, byte tokens and control tokens', () => {
    const vocabulary = createVocabulary({
      model: 'llama',
      tokens: ['<unk>', '</s>', '<0xF0>', '\u2581Hello', '<tool>'],
      token_type: [2, 3, 6, 1, 4],
    });
    expect(text(vocabulary.bytes(3))).toBe(' Hello');
    expect([...vocabulary.bytes(2)]).toEqual([0xf0]);
    expect(vocabulary.bytes(1).length).toBe(0);
    expect(vocabulary.label(1)).toBe('</s>');
    expect([1, 3, 4].map(vocabulary.control)).toEqual(['</s>', undefined, undefined]);
    expect(text(vocabulary.bytes(4))).toBe('<tool>');
    expect(vocabulary.controlTexts).toEqual(['<unk>', '</s>']);
    expect(vocabulary.addsLeadingSpace).toBe(true);
  });

  it('reads byte-pair tokens back into bytes', () => {
    const vocabulary = createVocabulary({
      model: 'gpt2',
      tokens: ['\u0120Hi', '\u010a', 'Ã©', 'ðŁ'],
      token_type: [1, 1, 1, 1],
    });
    expect(text(vocabulary.bytes(0))).toBe(' Hi');
    expect(text(vocabulary.bytes(1))).toBe('\n');
    expect(text(vocabulary.bytes(2))).toBe('é');
    expect([...vocabulary.bytes(3)]).toEqual([0xf0, 0x9f]);
    expect(vocabulary.addsLeadingSpace).toBe(false);
  });
});
