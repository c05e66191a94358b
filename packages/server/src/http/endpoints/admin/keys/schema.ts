import { Type } from 'typebox';
import { CLOSED } from '../../../body/changes.ts';
import { NewKey } from '../../keys/schema.ts';

export const NewKeyOfAccount = Type.Object(
  {
    account: Type.String({ minLength: 1, description: 'Id or name of the account' }),
    ...NewKey.properties,
  },
  CLOSED,
);
