import { type Account, requireRight } from '@baobab/core/domain/principal.ts';
import type { ApiError } from '@baobab/core/errors/api-error.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { BY } from '../../../../../test/fixtures/audit-entries.ts';
import { type MemoryRepositories, memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { type AccountsService, createAccounts } from './accounts.ts';
import { type AuthenticationService, createAuthentication } from './authentication.ts';
import { createKeys, type IssuedKey, type KeysService } from './keys.ts';

let store: MemoryRepositories;
let accounts: AccountsService;
let keys: KeysService;
let issued: IssuedKey;
let authentication: AuthenticationService;
let now: number;
const clock = { now: () => now };
const codeOf = async (authorization: string | undefined) => {
  try {
    return (await authentication.authenticate(authorization)).key.id;
  } catch (error) {
    return (error as ApiError).code;
  }
};
const bearer = (secret: string) => `Bearer ${secret}`;

beforeEach(async () => {
  now = Date.parse('2026-11-15T08:00:00Z');
  store = memoryRepositories();
  accounts = createAccounts({ ...store, clock });
  keys = createKeys({ keys: store.keys, accounts, clock });
  issued = await keys.createKey(await accounts.create('team', {}, BY), { name: 'ci', scopes: ['chat'] }, BY);
  authentication = createAuthentication({ ...store, clock });
  await authentication.refresh();
});

describe('the header', () => {
  it('is read with any case of the word and spaces around the key', async () => {
    for (const header of [bearer(issued.secret), `bearer ${issued.secret}`, `BEARER   ${issued.secret}  `]) {
      expect(await codeOf(header)).toBe(issued.key.id);
    }
  });

  it('without a key gets another error than a wrong key', async () => {
    for (const header of [
      undefined,
      '',
      'Bearer',
      'Bearer ',
      'Basic dXNlcjpwYXNz',
      issued.secret,
      'Bearer two words',
    ]) {
      expect(await codeOf(header)).toBe('missing_api_key');
    }
    for (const secret of ['short', 'bao_sk_wrong', `${issued.secret}x`, 'well-shaped-but-unknown']) {
      expect(await codeOf(bearer(secret))).toBe('invalid_api_key');
    }
  });
});

describe('the cache', () => {
  it('reads the store once for a key', async () => {
    for (let round = 0; round < 100; round += 1) await authentication.authenticate(bearer(issued.secret));
    expect(store.lookUps()).toBe(1);
  });

  it('reads the store once for an unknown key, and never for a mistyped one', async () => {
    for (let round = 0; round < 10; round += 1) await codeOf(bearer('well-shaped-but-unknown'));
    expect(store.lookUps()).toBe(1);
    const mistyped = issued.secret.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'));
    expect(await codeOf(bearer(mistyped))).toBe('invalid_api_key');
    expect(store.lookUps()).toBe(1);
  });

  it('keeps real keys through a flood of made-up ones', async () => {
    await codeOf(bearer(issued.secret));
    for (let index = 0; index < 12_000; index += 1) await codeOf(bearer(`made-up-key-${index}-000`));
    const before = store.lookUps();
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    expect(store.lookUps()).toBe(before);
  });

  it('forgets the oldest unknown keys first', async () => {
    for (let index = 0; index < 10_001; index += 1) await codeOf(bearer(`made-up-key-${index}-000`));
    const before = store.lookUps();
    await codeOf(bearer('made-up-key-10000-000'));
    expect(store.lookUps()).toBe(before);
    await codeOf(bearer('made-up-key-0-000'));
    expect(store.lookUps()).toBe(before + 1);
  });
});

describe('a change in the store', () => {
  it('revokes a cached key at the next refresh', async () => {
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    await keys.revokeKey(issued.key.id, BY);
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
  });

  it('lets a key in that was unknown a moment ago', async () => {
    const secret = 'chosen-by-the-operator-1';
    store = memoryRepositories();
    authentication = createAuthentication({ ...store, clock });
    expect(await codeOf(bearer(secret))).toBe('invalid_api_key');
    const others = createAccounts({ ...store, clock });
    const first = await createKeys({ keys: store.keys, accounts: others, clock }).bootstrap(secret, BY);
    await authentication.refresh();
    expect(await codeOf(bearer(secret))).toBe(first?.key.id);
  });

  it('reads the store again only when something has changed', async () => {
    await codeOf(bearer(issued.secret));
    for (let round = 0; round < 5; round += 1) await authentication.refresh();
    await codeOf(bearer(issued.secret));
    expect(store.lookUps()).toBe(1);
  });

  it('that the store cannot name makes every key be read again', async () => {
    const unnamed = { ...store.revisions, keyChanges: async () => undefined };
    authentication = createAuthentication({ ...store, revisions: unnamed, clock });
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    const release = store.holdNextLookUp();
    const other = codeOf(bearer('chosen-by-the-operator-1'));
    await keys.revokeKey(issued.key.id, BY);
    await authentication.refresh();
    release();
    await other;
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
    const before = store.lookUps();
    await codeOf(bearer('chosen-by-the-operator-1'));
    expect(store.lookUps()).toBe(before + 1);
  });

  it('is asked for again when the store could not say what it was', async () => {
    let isAway = true;
    const { keyChanges, ...rest } = store.revisions;
    authentication = createAuthentication({
      ...store,
      revisions: {
        ...rest,
        keyChanges: (...span) => (isAway ? Promise.reject(new Error('away')) : keyChanges(...span)),
      },
      clock,
    });
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    await keys.revokeKey(issued.key.id, BY);
    await expect(authentication.refresh()).rejects.toThrow('away');
    isAway = false;
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
  });

  it('is not hidden by a lookup that was already running', async () => {
    const release = store.holdNextLookUp();
    const early = codeOf(bearer(issued.secret));
    await keys.revokeKey(issued.key.id, BY);
    await authentication.refresh();
    release();
    await early;
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
  });
});

describe('a change by this process', () => {
  const addKey = async (name: string) =>
    keys.createKey((await accounts.find('other')) ?? (await accounts.create('other', {}, BY)), { name }, BY);

  it('is in force at once, and no other key is read again', async () => {
    const other = await addKey('other');
    for (const { key, secret } of [issued, other]) expect(await codeOf(bearer(secret))).toBe(key.id);
    expect((await authentication.authenticateKey(issued.key.id)).key.id).toBe(issued.key.id);
    await keys.revokeKey(issued.key.id, BY);
    authentication.forget({ keyId: issued.key.id });
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
    await expect(async () => authentication.authenticateKey(issued.key.id)).rejects.toMatchObject({
      code: 'key_revoked',
    });
    const before = store.lookUps();
    expect(await codeOf(bearer(other.secret))).toBe(other.key.id);
    expect(store.lookUps()).toBe(before);
  });

  it('of an account is in force for its keys at once', async () => {
    const other = await addKey('other');
    for (const { key, secret } of [issued, other]) expect(await codeOf(bearer(secret))).toBe(key.id);
    const suspended = await accounts.suspend((await accounts.find('team')) as Account, BY);
    authentication.forget({ accountId: suspended.id });
    const before = store.lookUps();
    expect(await codeOf(bearer(other.secret))).toBe(other.key.id);
    expect(store.lookUps()).toBe(before);
    expect(await codeOf(bearer(issued.secret))).toBe('account_suspended');
  });

  it('does not make a look-up of another key be repeated that was already running', async () => {
    const other = await addKey('other');
    const release = store.holdNextLookUp();
    const early = codeOf(bearer(issued.secret));
    authentication.forget({ keyId: other.key.id });
    await authentication.refresh();
    release();
    expect(await early).toBe(issued.key.id);
    const before = store.lookUps();
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    expect(store.lookUps()).toBe(before);
  });

  it('is not hidden by a lookup that was already running', async () => {
    const release = store.holdNextLookUp();
    const early = codeOf(bearer(issued.secret));
    await keys.revokeKey(issued.key.id, BY);
    authentication.forget({ keyId: issued.key.id });
    release();
    await early;
    expect(await codeOf(bearer(issued.secret))).toBe('key_revoked');
  });

  it('tells listeners which callers have changed', async () => {
    const principal = await authentication.authenticate(bearer(issued.secret));
    const told: boolean[] = [];
    const end = authentication.onChange((isConcerned) => told.push(isConcerned(principal)));
    authentication.forget({ keyId: 'key_other' });
    authentication.forget({ keyId: issued.key.id });
    authentication.forget({ accountId: issued.key.accountId });
    end();
    authentication.forget({ keyId: issued.key.id });
    expect(told).toEqual([false, true, true]);
  });
});

describe('expiry and scopes', () => {
  it('refuses a cached key from its expiry on', async () => {
    const expiresAt = now + 1000;
    const account = await accounts.find('team');
    if (account === undefined) throw new Error('no account');
    const short = await keys.createKey(account, { name: 'short', expiresAt }, BY);
    expect(await codeOf(bearer(short.secret))).toBe(short.key.id);
    now += 999;
    expect(await codeOf(bearer(short.secret))).toBe(short.key.id);
    now += 1;
    expect(await codeOf(bearer(short.secret))).toBe('expired_api_key');
  });

  it('refuses the keys of a suspended account until it is resumed', async () => {
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
    const account = (await accounts.find('team')) as Account;
    const suspended = await accounts.suspend(account, BY);
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe('account_suspended');
    await accounts.resume(suspended, BY);
    await authentication.refresh();
    expect(await codeOf(bearer(issued.secret))).toBe(issued.key.id);
  });

  it('names the missing scope', async () => {
    const principal = await authentication.authenticate(bearer(issued.secret));
    expect(() => requireRight(principal, 'chat.completions.create')).not.toThrow();
    expect(() => requireRight(principal, 'admin.system.get')).toThrow(
      /lacks the scope 'admin' .* Use a key that has it/,
    );
  });
});

describe('addresses', () => {
  it('are any without a list', async () => {
    const principal = await authentication.authenticate(bearer(issued.secret));
    expect(() => authentication.requireAddress(principal, '203.0.113.9')).not.toThrow();
    expect(() => authentication.requireAddress(principal, undefined)).not.toThrow();
  });

  it('must be in the list of the key', async () => {
    await keys.updateKey(issued.key.id, { allowedAddresses: ['10.0.0.0/8', '::1'] }, BY);
    await authentication.refresh();
    const principal = await authentication.authenticate(bearer(issued.secret));
    for (const address of ['10.1.2.3', '::1', '::ffff:10.1.2.3']) authentication.requireAddress(principal, address);
    for (const address of ['11.0.0.1', '::2', undefined]) {
      expect(() => authentication.requireAddress(principal, address)).toThrow(
        expect.objectContaining({ code: 'address_not_allowed', status: 403 }),
      );
    }
  });
});

describe('times of last use', () => {
  it('are written once a minute for a key, however often it is used', async () => {
    for (let round = 0; round < 5; round += 1) {
      await authentication.authenticate(bearer(issued.secret));
      await authentication.flushUses();
      now += 5_000;
    }
    expect(store.touches).toEqual([[{ id: issued.key.id, lastUsedAt: Date.UTC(2026, 10, 15, 8) }]]);
    now += 60_000;
    await authentication.authenticate(bearer(issued.secret));
    await authentication.flushUses();
    expect(store.touches).toHaveLength(2);
  });
});
