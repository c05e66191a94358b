import { steadyClock } from '@baobab/core/runtime/clock.ts';
import { createKeyBackoff, createSignInLimit } from '../../admission/failures-by-address.ts';
import { createAccountKeys } from '../../services/access/account-keys.ts';
import { createAccounts } from '../../services/access/accounts.ts';
import { createAuthentication } from '../../services/access/authentication.ts';
import { createKeys } from '../../services/access/keys.ts';
import { createOwnKey } from '../../services/access/own-key.ts';
import { createSessions, keyMethod } from '../../services/access/sessions.ts';
import { createAudit } from '../../services/audit/audit.ts';
import type { Foundation } from './foundation.ts';
import type { ModelParts } from './models.ts';

export type AccessParts = ReturnType<typeof composeAccess>;

/** Accounts, keys, sessions, and the log of their changes. */
export function composeAccess({
  config,
  store,
  catalog,
  clock,
}: Pick<Foundation, 'config' | 'store' | 'clock'> & Pick<ModelParts, 'catalog'>) {
  const models = { slugs: async () => catalog.list({ status: 'all' }).map(({ entry }) => entry.slug) };
  const accounts = createAccounts({ accounts: store.accounts, models, clock });
  const keys = createKeys({ accounts, keys: store.keys, models, clock });
  const authentication = createAuthentication({ ...store, clock });
  return {
    accounts,
    keys,
    authentication,
    audit: createAudit({ log: store.audit, settings: config.audit, clock }),
    keyMethod: keyMethod(authentication),
    keyBackoff: createKeyBackoff(steadyClock),
    signInLimit: createSignInLimit(steadyClock),
    sessions: createSessions({ sessions: store.sessions, authentication, clock, steadyClock }),
    accountKeys: createAccountKeys({ keys, audit: store.audit, clock }),
    ownKey: createOwnKey({ usage: store.usage, clock }),
  };
}
