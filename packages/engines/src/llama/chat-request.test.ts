import { describe, expect, it } from 'vitest';
import { outputBudget } from './chat-request.ts';

const budget = {
  field: ['messages'],
  promptTokens: 100,
  contextLength: 2048,
  maxOutputTokens: null,
  maxTokens: undefined,
} as const;

describe('outputBudget', () => {
  it('is the rest of the context by default, or the cap of the model', () => {
    expect(outputBudget(budget)).toBe(1948);
    expect(outputBudget({ ...budget, maxOutputTokens: 512 })).toBe(512);
    expect(outputBudget({ ...budget, maxTokens: 1948 })).toBe(1948);
  });

  it('answers 422 with the numbers when the prompt fills the context', () => {
    expect(() => outputBudget({ ...budget, promptTokens: 2048 })).toThrow(
      expect.objectContaining({ status: 422, param: 'messages', message: expect.stringContaining('2048 tokens') }),
    );
  });

  it('answers 422 with the numbers when the answer would not fit', () => {
    expect(() => outputBudget({ ...budget, maxTokens: 1949 })).toThrow(
      expect.objectContaining({
        status: 422,
        param: 'maxTokens',
        message: expect.stringMatching(/2048.*2049.*100 in.*1949 in.*1948/),
      }),
    );
  });
});
