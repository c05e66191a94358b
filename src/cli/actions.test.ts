import { expect, it } from 'vitest';
import { nothing, one, readAction, several } from './actions.ts';
import { UsageError } from './command.ts';

const read = (...args: string[]) =>
  readAction('keys', { create: one('a name'), list: nothing, revoke: several('an id') }, args);

it('reads the action and what follows it', () => {
  expect(read('list')).toEqual({ action: 'list', following: [] });
  expect(read('create', 'ci')).toEqual({ action: 'create', following: ['ci'] });
  expect(read('revoke', 'a', 'b')).toEqual({ action: 'revoke', following: ['a', 'b'] });
});

it.each([
  [[], 'say what to do: create, list, revoke'],
  [['remove', 'ci'], "there is no action 'remove'; there are: create, list, revoke"],
  [['constructor'], "there is no action 'constructor'; there are: create, list, revoke"],
  [['create'], "'keys create' needs a name"],
  [['revoke'], "'keys revoke' needs an id"],
  [['create', 'my', 'new', 'key'], "'keys create' cannot do anything with 'new key'"],
  [['list', 'team'], "'keys list' cannot do anything with 'team'"],
])('of %j it says what is wrong', (args, message) => {
  expect(() => read(...args)).toThrow(new UsageError(message));
});
