import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { chooseByPrefix, createPrefixMemory, type PoolMember, prefixKey } from './prefixes.ts';

const chat = (...contents: string[]): ChatRequest => ({
  prompt: { messages: contents.map((content) => ({ role: 'user' as const, content })) },
});
const member = (address: string, changes: Partial<PoolMember> = {}): PoolMember => ({
  address,
  weight: 1,
  inFlight: 0,
  hasRoom: () => true,
  ...changes,
});
const keys = Array.from({ length: 3_000 }, (_, index) => `key ${index}`);
const chosen = (key: string, members: readonly PoolMember[]) => chooseByPrefix(key, members)?.address;

describe('the key of a prompt', () => {
  it('stays the same while a conversation grows, and is absent for short ones', () => {
    const first = chat('s'.repeat(1_200), 'first question');
    const later = chat('s'.repeat(1_200), 'first question', 'an answer', 'second question');
    expect(prefixKey('a', later)).toBe(prefixKey('a', first));
    expect(prefixKey('a', chat('Hi'))).toBeUndefined();
  });

  it('keeps accounts apart', () => {
    const request = { prompt: { text: 'x'.repeat(400) } };
    expect(prefixKey('a', request)).not.toBe(prefixKey('b', request));
  });

  it('differs with the tools', () => {
    const request = chat('x'.repeat(2_000));
    expect(prefixKey('a', { ...request, tools: [{ name: 'weather' }] })).not.toBe(prefixKey('a', request));
  });
});

describe('the choice by prefix', () => {
  it('spreads keys by weight and moves only the keys of a member that leaves', () => {
    const members = [member('a'), member('b'), member('c', { weight: 2 })];
    const before = keys.map((key) => chosen(key, members));
    const share = (address: string) => before.filter((each) => each === address).length / keys.length;
    expect(share('a')).toBeCloseTo(0.25, 1);
    expect(share('c')).toBeCloseTo(0.5, 1);
    const without = keys.map((key) => chosen(key, members.slice(1)));
    expect(without.filter((each, index) => each !== before[index]).length).toBe(
      before.filter((each) => each === 'a').length,
    );
  });

  it('does not depend on the order of the members', () => {
    const members = [member('a'), member('b'), member('c')];
    expect(keys.map((key) => chosen(key, members.toReversed()))).toEqual(keys.map((key) => chosen(key, members)));
  });

  it('leaves out members that are full or carry more than their share', () => {
    const key = keys.find((each) => chosen(each, [member('a'), member('b')]) === 'a') ?? '';
    expect(chosen(key, [member('a', { inFlight: 2 }), member('b', { inFlight: 2 })])).toBe('a');
    expect(chosen(key, [member('a', { inFlight: 4 }), member('b')])).toBe('b');
    expect(chosen(key, [member('a', { hasRoom: () => false }), member('b')])).toBe('b');
    expect(chosen(key, [member('a', { hasRoom: () => false }), member('b', { hasRoom: () => false })])).toBeUndefined();
  });
});

const text = (prompt: string): ChatRequest => ({ prompt: { text: prompt } });

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
