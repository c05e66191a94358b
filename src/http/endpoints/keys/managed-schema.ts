import { Type } from 'typebox';
import { NewKey } from '../admin/keys/schema.ts';
import { CLOSED } from '../admin/schema.ts';

const { account: _, ...fields } = NewKey.properties;

/** A key of the caller's own account. */
export const NewOwnKey = Type.Object(fields, CLOSED);
