import { expect, it } from 'vitest';
import { nothing, one, readAction, several, withOptions } from './actions.ts';
import { UsageError } from './command.ts';

const read = (...args: string[]) =>
  readAction('keys', { create: one('a name'), list: nothing, revoke: several('an id') }, { positionals: args });

it('reads the action and what follows it', () => {
  expect(read('list')).toEqual({ action: 'list', following: [] });
  expect(read('create', 'ci')).toEqual({ action: 'create', following: ['ci'] });
  expect(read('revoke', 'a', 'b')).toEqual({ action: 'revoke', following: ['a', 'b'] });
});

it.each([
  [[], 'an action is missing; use one of: create, list, revoke'],
  [['remove', 'ci'], "unknown action 'remove'; did you mean 'revoke'? Use one of: create, list, revoke"],
  [['constructor'], "unknown action 'constructor'; use one of: create, list, revoke"],
  [['create'], "'keys create' needs a name"],
  [['revoke'], "'keys revoke' needs an id"],
  [['create', 'my', 'new', 'key'], "'keys create' does not accept 'new key'"],
  [['list', 'team'], "'keys list' does not accept 'team'"],
])('reports the error in %j', (args, message) => {
  expect(() => read(...args)).toThrow(new UsageError(message));
});

it('suggests the action that was meant', () => {
  const actions = { list: withOptions(nothing, 'limit'), show: withOptions(one('an id'), 'watch') };
  const error = (action: string) => () => readAction('batches', actions, { positionals: [action] });
  expect(error('watch')).toThrow(
    new UsageError("unknown action 'watch'; did you mean 'show --watch'? Use one of: list, show"),
  );
  expect(error('lst')).toThrow(new UsageError("unknown action 'lst'; did you mean 'list'? Use one of: list, show"));
});

it('refuses options of other actions, which it would ignore', () => {
  const actions = { create: one('a name'), list: withOptions(nothing, 'account') };
  const readList = (values: object) => readAction('keys', actions, { values, positionals: ['list'] });
  expect(readList({ account: 'team', json: true }).action).toBe('list');
  expect(() => readList({ rpm: '5' })).toThrow(new UsageError("'keys list' does not take --rpm"));
});
