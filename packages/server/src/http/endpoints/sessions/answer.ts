import type { Principal } from '@baobab/core/domain/principal.ts';
import { isoTime, isoTimeOrNull } from '@baobab/core/domain/time/dates.ts';
import type { Session } from '@baobab/core/ports/sessions.ts';
import type { Static } from 'typebox';
import type { SessionShape } from './schema.ts';

export interface ServerFacts {
  version: string;
  region: string;
}

export const sessionToWire = (
  { account, key }: Principal,
  current: { session: Session; csrfToken: string } | undefined,
  { version, region }: ServerFacts,
): Static<typeof SessionShape> => ({
  object: 'session',
  account: { id: account.id, name: account.name },
  key: { id: key.id, name: key.name, prefix: key.prefix },
  scopes: [...key.scopes],
  csrf_token: current?.csrfToken ?? null,
  created_at: isoTimeOrNull(current?.session.createdAt ?? null),
  expires_at: current === undefined ? isoTimeOrNull(key.expiresAt) : isoTime(current.session.expiresAt),
  version,
  region,
});
