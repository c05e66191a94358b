import { describe, expect, it } from 'vitest';
import { isInference, isOperator, may, missingScope, OPERATIONS, type Operation } from './operations.ts';
import { INFERENCE_SCOPES, SCOPES } from './scopes.ts';

const all = Object.keys(OPERATIONS) as Operation[];

describe('the operations', () => {
  it('are allowed to a key with every scope', () => {
    expect(all.filter((operation) => !may({ scopes: SCOPES }, operation))).toEqual([]);
  });

  it('are refused to a key without scopes, but for its own key and session, and tokens, which need the scope of their model', () => {
    expect(all.filter((operation) => may({ scopes: [] }, operation))).toEqual([
      'tokens.encode',
      'tokens.decode',
      'keys.own',
      'sessions.get',
      'sessions.end',
    ]);
  });

  it('that run models have the scopes of inference', () => {
    const scopes = new Set(all.filter(isInference).map((operation) => OPERATIONS[operation]));
    expect([...scopes]).toEqual(INFERENCE_SCOPES);
    expect(isInference(undefined)).toBe(false);
  });
});

it('names the scope that a key lacks', () => {
  expect(missingScope({ scopes: ['files'] }, 'batches.create')).toBe('batches');
  expect(missingScope({ scopes: ['batches'] }, 'batches.create')).toBeUndefined();
});

it('lets operators manage keys, and gives them no other scope', () => {
  const operator = { scopes: ['admin'] };
  expect(isOperator(operator)).toBe(true);
  expect(all.filter((operation) => !operation.startsWith('admin.') && may(operator, operation))).toEqual([
    'tokens.encode',
    'tokens.decode',
    'keys.own',
    'keys.list',
    'keys.create',
    'keys.update',
    'keys.revoke',
    'keys.rotate',
    'audit.list',
    'sessions.get',
    'sessions.end',
  ]);
  expect(isOperator({ scopes: SCOPES.filter((scope) => scope !== 'admin') })).toBe(false);
});
