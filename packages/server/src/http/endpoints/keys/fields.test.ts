import { ACCOUNT_FIELDS, ACCOUNT_SETTINGS, KEY_FIELDS, KEY_RIGHTS } from '@baobab/core/domain/principal.ts';
import { expect, it } from 'vitest';
import { AccountChanges, AccountShape } from '../admin/accounts/schema.ts';
import { wireNames } from './fields.ts';
import { KeyChanges, KeyShape } from './schema.ts';

const namesOf = (fields: object): string[] => Object.values(wireNames(fields));

it.each([
  ['an answer with a key', KeyShape, ['object', 'account_name', 'limits', ...namesOf(KEY_FIELDS)]],
  ['a change of a key', KeyChanges, ['name', ...namesOf(KEY_RIGHTS)]],
  ['an answer with an account', AccountShape, ['object', 'status', 'limits', ...namesOf(ACCOUNT_FIELDS)]],
  ['a change of an account', AccountChanges, namesOf(ACCOUNT_SETTINGS)],
])('%s has the fields of the table', (_name, schema, names) => {
  expect(Object.keys(schema.properties).toSorted()).toEqual(names.toSorted());
});
