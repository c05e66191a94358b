import { expect, it } from 'vitest';
import { BY } from '../../../../../test/fixtures/audit-entries.ts';
import { memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { createAccountKeys } from './account-keys.ts';
import { createAccounts } from './accounts.ts';
import { createKeys } from './keys.ts';

const clock = { now: () => Date.UTC(2026, 10, 17) };

it('finds one of many keys without reading the others, and none of another account', async () => {
  const { accounts: accountRecords, keys: keyRecords, audit } = memoryRepositories();
  const accounts = createAccounts({ accounts: accountRecords, clock });
  const list = () => Promise.reject(new Error('all keys were read'));
  const keys = createKeys({ accounts, keys: { ...keyRecords, list }, clock });
  const [own, other] = [await accounts.create('own', {}, BY), await accounts.create('other', {}, BY)];
  const options = { name: 'a', scopes: ['keys', 'chat'] as const };
  const [mine, theirs] = [await keys.createKey(own, options, BY), await keys.createKey(other, options, BY)];
  const second = await keys.createKey(own, options, BY);

  const accountKeys = createAccountKeys({ keys, audit, clock });
  const caller = { account: own, key: mine.key, by: BY };
  expect(await accountKeys.update(caller, second.key.id, { name: 'b' })).toMatchObject({ name: 'b' });
  expect((await accountKeys.revoke(caller, second.key.id)).revokedAt).toBe(clock.now());
  for (const id of [theirs.key.id, 'key_none']) {
    await expect(accountKeys.revoke(caller, id)).rejects.toThrow(`There is no key '${id}'.`);
  }
  expect((await keyRecords.get(theirs.key.id))?.revokedAt).toBeNull();
});

it('makes at most 1000 keys, and more when old ones are revoked', async () => {
  let now = clock.now();
  const { accounts: accountRecords, keys: keyRecords, audit } = memoryRepositories();
  const accounts = createAccounts({ accounts: accountRecords, clock });
  const keys = createKeys({ accounts, keys: keyRecords, clock: { now: () => now } });
  const account = await accounts.create('own', {}, BY);
  const options = { name: 'a', scopes: ['keys', 'chat'] as const };
  const { key } = await keys.createKey(account, options, BY);
  const accountKeys = createAccountKeys({ keys, audit, clock: { now: () => now } });
  const caller = { account, key, by: BY };
  const made = [];
  for (let count = 1; count < 1000; count += 1) made.push((await accountKeys.create(caller, options)).key.id);
  const refused = { code: 'key_not_allowed', message: expect.stringContaining('1000 keys') };
  await expect(accountKeys.create(caller, options)).rejects.toMatchObject(refused);
  await expect(accountKeys.rotate(caller, key.id, 0)).rejects.toMatchObject(refused);

  await accountKeys.revoke(caller, made[0] ?? '');
  await expect(accountKeys.create(caller, options)).rejects.toMatchObject(refused);
  now += 86_400_001;
  await accountKeys.create(caller, options);
  await expect(accountKeys.create(caller, options)).rejects.toMatchObject(refused);

  const operator = { ...caller, key: { ...key, scopes: ['admin' as const] } };
  await accountKeys.create(operator, options);
});

it('changes keys at most 1000 times a day, and revokes them still', async () => {
  let now = clock.now();
  const ticking = { now: () => now };
  const { accounts: accountRecords, keys: keyRecords, audit } = memoryRepositories();
  const accounts = createAccounts({ accounts: accountRecords, clock: ticking });
  const keys = createKeys({ accounts, keys: keyRecords, clock: ticking });
  const account = await accounts.create('own', {}, BY);
  const { key } = await keys.createKey(account, { name: 'a', scopes: ['keys', 'chat'] }, BY);
  const accountKeys = createAccountKeys({ keys, audit, clock: ticking });
  const actor = { ...BY.actor, id: key.id, accountId: account.id };
  const caller = { account, key, by: { ...BY, via: 'api' as const, actor } };
  // What operators change does not count.
  await keys.updateKey(key.id, { name: 'by an operator' }, BY);
  for (let count = 0; count < 1000; count += 1) await accountKeys.update(caller, key.id, { name: `name ${count}` });
  const refused = { code: 'key_not_allowed', message: expect.stringContaining('1000 times') };
  await expect(accountKeys.update(caller, key.id, { name: 'last' })).rejects.toMatchObject(refused);
  const operator = { ...caller, key: { ...key, scopes: ['admin' as const] } };
  await accountKeys.update(operator, key.id, { name: 'by an operator' });
  now += 86_400_001;
  await accountKeys.update(caller, key.id, { name: 'last' });
  expect((await accountKeys.revoke(caller, key.id)).revokedAt).toBe(now);
});

it('rotates a key to one that expires no later than the key in use, and an operator to one that lasts as long as the old one', async () => {
  let now = clock.now();
  const ticking = { now: () => now };
  const { accounts: accountRecords, keys: keyRecords, audit } = memoryRepositories();
  const accounts = createAccounts({ accounts: accountRecords, clock: ticking });
  const keys = createKeys({ accounts, keys: keyRecords, clock: ticking });
  const account = await accounts.create('own', {}, BY);
  const scopes = ['keys', 'chat'] as const;
  const expiresAt = now + 3_600_000;
  const { key } = await keys.createKey(account, { name: 'temporary', scopes, expiresAt }, BY);
  const { key: other } = await keys.createKey(account, { name: 'other', scopes, expiresAt: expiresAt - 1 }, BY);
  const accountKeys = createAccountKeys({ keys, audit, clock: ticking });
  const caller = { account, key, by: BY };
  now += 1_800_000;
  expect((await accountKeys.rotate(caller, key.id, 60_000)).key.expiresAt).toBe(expiresAt);
  expect((await accountKeys.rotate(caller, other.id, 60_000)).key.expiresAt).toBe(expiresAt);
  const operator = { ...caller, key: { ...key, scopes: ['admin' as const] } };
  expect((await accountKeys.rotate(operator, key.id, 60_000)).key.expiresAt).toBeGreaterThan(now + 1_800_000);
});

it('gives no key a higher priority than the key that makes or changes it', async () => {
  const { accounts: accountRecords, keys: keyRecords, audit } = memoryRepositories();
  const accounts = createAccounts({ accounts: accountRecords, clock });
  const keys = createKeys({ accounts, keys: keyRecords, clock });
  const account = await accounts.create('own', {}, BY);
  const options = { name: 'a', scopes: ['keys', 'chat'] as const };
  const { key: low } = await keys.createKey(account, { ...options, priority: 'low' }, BY);
  const { key: usual } = await keys.createKey(account, options, BY);
  expect(usual.priority).toBe('interactive');
  const accountKeys = createAccountKeys({ keys, audit, clock });
  const caller = { account, key: low, by: BY };

  expect((await accountKeys.create(caller, options)).key.priority).toBe('low');
  const beyond = { message: expect.stringContaining('must not go beyond the rights') };
  await expect(accountKeys.create(caller, { ...options, priority: 'interactive' })).rejects.toMatchObject(beyond);
  await expect(accountKeys.update(caller, low.id, { priority: 'interactive' })).rejects.toMatchObject(beyond);
  await expect(accountKeys.update(caller, usual.id, { priority: 'low' })).rejects.toMatchObject({
    code: 'key_not_allowed',
  });
  expect((await accountKeys.rotate(caller, low.id, 0)).key.priority).toBe('low');
  expect((await accountKeys.update({ ...caller, key: usual }, usual.id, { priority: 'low' })).priority).toBe('low');
});
