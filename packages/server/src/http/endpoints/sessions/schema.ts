import { SCOPES } from '@baobab/core/domain/scopes.ts';
import { Type } from 'typebox';
import { CLOSED } from '../../body/changes.ts';
import { AppliedLimitsShape } from '../keys/limits.ts';

const nullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description });

export const SignIn = Type.Object(
  {
    key: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'The API key; or send it as a bearer token' }),
    ),
  },
  CLOSED,
);

export const SessionShape = Type.Object({
  object: Type.Literal('session'),
  account: Type.Object({ id: Type.String(), name: Type.String() }),
  key: Type.Object({ id: Type.String(), name: Type.String(), prefix: Type.String() }),
  scopes: Type.Array(Type.Enum([...SCOPES])),
  csrf_token: nullableText(
    'Send it as `X-Baobab-CSRF` with every POST and DELETE of this session; null for a request with a key',
  ),
  created_at: nullableText('Null for a request with a key'),
  expires_at: nullableText('Moves on while the session is used; null for a key that does not expire'),
  version: Type.String({ description: 'Of the service' }),
  region: Type.String({ description: 'Of the server that answers' }),
  default_limits: {
    ...AppliedLimitsShape,
    description:
      'The `limits` of a key that has none of its own, in an account that has none either: those of the models and the settings',
  },
});

export const EndedSession = Type.Object({ object: Type.Literal('session'), deleted: Type.Literal(true) });
