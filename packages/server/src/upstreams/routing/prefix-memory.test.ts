import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { createPrefixMemory } from './prefix-memory.ts';

const text = (prompt: string): ChatRequest => ({ prompt: { text: prompt } });
const chat = (...contents: string[]): ChatRequest => ({
  prompt: { messages: contents.map((content) => ({ role: 'user' as const, content })) },
});

describe('the prefix memory', () => {
  it('estimates whole blocks of the longest common start', () => {
    const memory = createPrefixMemory();
    expect(memory.estimator('a', text('x'.repeat(400)))(100)).toBe(0);
    memory.remember('a', text('y'.repeat(400)));
    memory.remember('a', text('x'.repeat(400)));
    expect(memory.estimator('a', text('x'.repeat(400)))(100)).toBe(96);
    expect(memory.estimator('a', text('x'.repeat(400)))(96)).toBe(80);
    expect(memory.estimator('a', text('x'.repeat(200) + 'z'.repeat(200)))(100)).toBe(48);
    expect(memory.estimator('a', text(''))(0)).toBe(0);
  });

  it('learns the size of a block from what the upstream reports', () => {
    const memory = createPrefixMemory();
    memory.remember('a', text('x'.repeat(4_000)));
    const estimate = memory.estimator('a', text('x'.repeat(4_000)));
    expect(estimate(640)).toBe(624);
    memory.observe(0);
    expect(estimate(640)).toBe(624);
    // A CPU build.
    memory.observe(512);
    memory.observe(384);
    expect(estimate(640)).toBe(512);
    expect(estimate(100)).toBe(0);
    memory.observe(48);
    expect(estimate(640)).toBe(624);
  });

  it('keeps accounts apart', () => {
    const memory = createPrefixMemory();
    memory.remember('a', text('x'.repeat(400)));
    expect(memory.estimator('b', text('x'.repeat(400)))(100)).toBe(0);
  });

  it('knows only what came before the request', () => {
    const memory = createPrefixMemory();
    const estimate = memory.estimator('a', text('x'.repeat(400)));
    memory.remember('a', text('x'.repeat(400)));
    expect(estimate(100)).toBe(0);
  });

  it('compares tools and messages', () => {
    const memory = createPrefixMemory();
    const first = chat('a long system prompt '.repeat(50));
    memory.remember('a', first);
    const next = chat('a long system prompt '.repeat(50), 'and a question');
    expect(memory.estimator('a', next)(300)).toBeGreaterThan(240);
    expect(memory.estimator('a', { ...next, tools: [{ name: 'weather' }] })(300)).toBe(0);
  });

  it('stays bounded', () => {
    const memory = createPrefixMemory();
    const long = text('x'.repeat(2_000_000));
    for (let i = 0; i < 6; i++) memory.remember(`account-${i}`, long);
    expect(memory.estimator('account-0', long)(1_000)).toBe(0);
    expect(memory.estimator('account-5', long)(1_000)).toBe(992);
    memory.remember('big', text('x'.repeat(3_000_000)));
    expect(memory.estimator('big', long)(1_000)).toBe(0);
  });
});
