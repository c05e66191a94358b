import { describe, expect, it } from 'vitest';
import { completionCommand } from './command.ts';

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
      expect.objectContaining({ status: 400, param: 'prompt', message: expect.stringContaining('one is accepted') }),
    );
  });

  it('refuses echo, suffix and best_of by name', () => {
    for (const [field, value] of Object.entries({ echo: true, suffix: 'x', best_of: 3 })) {
      expect(() => completionCommand({ model: 'm', prompt: 'a', [field]: value })).toThrow(`'${field}'`);
    }
  });
});
