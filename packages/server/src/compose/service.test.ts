import { expect, it } from 'vitest';
import { BY } from '../../../../test/fixtures/audit-entries.ts';
import { memoryRepositories } from '../../../../test/fixtures/memory-repositories.ts';
import { createAccounts } from '../services/access/accounts.ts';
import { createKeys } from '../services/access/keys.ts';
import { reportUnusedKey } from './service.ts';

const clock = { now: () => 1_000 };

it('says that first_key is not used on a store with keys, and whether it matches one of them', async () => {
  const store = memoryRepositories();
  const accounts = createAccounts({ accounts: store.accounts, clock });
  const keys = createKeys({ accounts, keys: store.keys, clock });
  const lines: string[] = [];
  const logger = {
    info: (_: object, text: string) => lines.push(`info: ${text}`),
    warn: (_: object, text: string) => lines.push(`warn: ${text}`),
  };
  const secret = 'configured-key-0123456789';
  const first = await keys.bootstrap(secret, BY);
  await reportUnusedKey(undefined, { keys, logger });
  expect(lines).toEqual([]);
  await reportUnusedKey(secret, { keys, logger });
  expect(lines.pop()).toMatch(/^info: first_key has no effect: the store has this key/);
  await reportUnusedKey('another-key-0123456789', { keys, logger });
  expect(lines.pop()).toMatch(
    /^warn: first_key is not used: this store has keys already, and none of them is this one/,
  );
  await keys.revokeKey(first?.key.id ?? '', BY);
  await reportUnusedKey(secret, { keys, logger });
  expect(lines.pop()).toMatch(/^warn: first_key is not used, .* revoked/);
});
