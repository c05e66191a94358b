import type { ChatRequest } from '@baobab/core/engine/engine.ts';
import { describe, expect, it } from 'vitest';
import { chooseByPrefix, type PoolMember, prefixKey } from './affinity.ts';

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
