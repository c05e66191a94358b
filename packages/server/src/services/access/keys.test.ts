import type { Account } from '@baobab/core/domain/principal.ts';
import { DEFAULT_SCOPES, SCOPES } from '@baobab/core/domain/scopes.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { BY } from '../../../../../test/fixtures/audit-entries.ts';
import { type MemoryRepositories, memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { type AccountsService, createAccounts } from './accounts.ts';
import { hashSecret, isPlausibleSecret } from './key-secret.ts';
import { createKeys, type KeysService } from './keys.ts';

let store: MemoryRepositories;
let accounts: AccountsService;
let service: KeysService;
let account: Account;
const now = Date.parse('2026-11-15T08:00:00Z');
const clock = { now: () => now };
const hour = 3_600_000;

function start(): void {
  store = memoryRepositories();
  accounts = createAccounts({ ...store, clock });
  service = createKeys({ keys: store.keys, accounts, clock });
}

beforeEach(async () => {
  start();
  account = await accounts.create('team', {}, BY);
});

describe('keys', () => {
  it('are stored by their hash alone', async () => {
    const { key, secret } = await service.createKey(account, { name: 'ci' }, BY);
    expect(isPlausibleSecret(secret)).toBe(true);
    expect(key).toMatchObject({
      name: 'ci',
      accountId: account.id,
      scopes: DEFAULT_SCOPES,
      prefix: secret.slice(0, 11),
    });
    expect(JSON.stringify(await store.keys.list({}))).not.toContain(secret.slice(11));
    expect((await store.keys.findByHash(hashSecret(secret)))?.key.id).toBe(key.id);
  });

  it('cannot be created expired', async () => {
    const expiresAt = now;
    await expect(service.createKey(account, { name: 'x', expiresAt }, BY)).rejects.toMatchObject({
      param: 'expiresAt',
    });
  });

  it('keep the time of their first revocation', async () => {
    const { key } = await service.createKey(account, { name: 'ci' }, BY);
    const revoked = await service.revokeKey(key.id, BY);
    expect(revoked?.revokedAt).toBe(Date.UTC(2026, 10, 15, 8));
    expect(await service.revokeKey(key.id, BY)).toEqual(revoked);
    expect(await service.revokeKey('key_none', BY)).toBeUndefined();
  });
});

it('refuses control characters in names and lists', async () => {
  const refused = (options: object) => service.createKey(account, { name: 'x', ...options }, BY);
  for (const name of ['\u001b[2J', 'a\nb', '\u202edrow', '\u009b']) {
    await expect(refused({ name })).rejects.toMatchObject({ code: 'invalid_parameter', param: 'name' });
  }
  await expect(refused({ allowedModels: ['a/*', '\0'] })).rejects.toMatchObject({ param: 'allowedModels[1]' });
  const { key } = await service.createKey(account, { name: 'ci' }, BY);
  await expect(service.updateKey(key.id, { name: '\t' }, BY)).rejects.toMatchObject({ param: 'name' });
  await expect(service.updateKey(key.id, { allowedRegions: ['\r'] }, BY)).rejects.toMatchObject({
    param: 'allowedRegions[0]',
  });
});

it('refuses addresses that are not IP addresses or ranges', async () => {
  const allowedAddresses = ['10.0.0.0/8', 'localhost'];
  await expect(service.createKey(account, { name: 'x', allowedAddresses }, BY)).rejects.toMatchObject({
    code: 'invalid_parameter',
    param: 'allowedAddresses[1]',
  });
});

describe('changes', () => {
  it('change the given fields and nothing else', async () => {
    const { key } = await service.createKey(account, { name: 'ci', rpm: 5, tpm: 6, allowedModels: ['baobab/*'] }, BY);
    const changed = await service.updateKey(key.id, { rpm: null, allowedModels: [], concurrency: 2 }, BY);
    expect(changed).toEqual({ ...key, rpm: null, allowedModels: [], concurrency: 2 });
    expect(await service.updateKey('key_none', { rpm: 1 }, BY)).toBeUndefined();
  });

  it('can neither end a key in the past nor bring a revoked one back', async () => {
    const { key } = await service.createKey(account, { name: 'ci' }, BY);
    const past = service.updateKey(key.id, { expiresAt: now }, BY);
    await expect(past).rejects.toMatchObject({ param: 'expiresAt' });
    await service.revokeKey(key.id, BY);
    await expect(service.updateKey(key.id, { rpm: 1 }, BY)).rejects.toMatchObject({ param: 'id' });
  });
});

describe('rotation', () => {
  it('issues a key with the same rights and keeps the old one for the grace period', async () => {
    const { key } = await service.createKey(
      account,
      {
        name: 'ci',
        scopes: ['chat'],
        allowedModels: ['baobab/*'],
        allowedRegions: ['local'],
        rpm: 5,
        monthlyBudgetNanoUsd: 7,
      },
      BY,
    );
    const rotated = await service.rotateKey(key.id, { graceMs: 24 * hour }, BY);
    const { id, prefix, ...rights } = key;
    expect(rotated?.key).toMatchObject(rights);
    expect(rotated?.key.id).not.toBe(id);
    expect(rotated?.key.prefix).not.toBe(prefix);
    expect(rotated?.previous).toMatchObject({ id, expiresAt: Date.UTC(2026, 10, 16, 8), revokedAt: null });
  });

  it('counts limits and spending of all keys of a chain together', async () => {
    const { key } = await service.createKey(account, { name: 'ci', monthlyBudgetNanoUsd: 7 }, BY);
    const second = await service.rotateKey(key.id, { graceMs: hour }, BY);
    const third = await service.rotateKey(second?.key.id ?? '', { graceMs: hour }, BY);
    expect([key, second?.key, third?.key].map((each) => each?.originalId)).toEqual([key.id, key.id, key.id]);
  });

  it('never lengthens the life of the old key', async () => {
    const expiresAt = now + hour;
    const { key } = await service.createKey(account, { name: 'ci', expiresAt }, BY);
    expect((await service.rotateKey(key.id, { graceMs: 24 * hour }, BY))?.previous.expiresAt).toBe(expiresAt);
  });

  it('without grace revokes the old key at once', async () => {
    const { key } = await service.createKey(account, { name: 'ci' }, BY);
    expect((await service.rotateKey(key.id, { graceMs: 0 }, BY))?.previous.revokedAt).toBe(Date.UTC(2026, 10, 15, 8));
  });

  it('is refused beyond 24 hours and for revoked keys', async () => {
    const { key } = await service.createKey(account, { name: 'ci' }, BY);
    await expect(service.rotateKey(key.id, { graceMs: 24 * hour + 1 }, BY)).rejects.toMatchObject({ param: 'graceMs' });
    await expect(service.rotateKey(key.id, { graceMs: -1 }, BY)).rejects.toMatchObject({ param: 'graceMs' });
    await service.revokeKey(key.id, BY);
    await expect(service.rotateKey(key.id, { graceMs: 0 }, BY)).rejects.toMatchObject({ param: 'id' });
    expect(await service.rotateKey('key_none', { graceMs: 0 }, BY)).toBeUndefined();
  });
});

describe('the first start', () => {
  beforeEach(start);

  it('creates the account default and a key with every scope, once', async () => {
    const first = await service.bootstrap(undefined, BY);
    expect(first?.key.scopes).toEqual(SCOPES);
    expect((await accounts.list()).map(({ name }) => name)).toEqual(['default']);
    expect(await service.bootstrap(undefined, BY)).toBeUndefined();
    expect(await service.listKeys()).toHaveLength(1);
  });

  it('takes the key it is given', async () => {
    const first = await service.bootstrap('chosen-by-the-operator', BY);
    expect(first?.secret).toBe('chosen-by-the-operator');
    expect(await service.bootstrap('another-one-0123456', BY)).toBeUndefined();
  });

  it.each(['chosen-by-the-operator', undefined])(
    'makes one key when several servers start at the same time (given: %s)',
    async (chosen) => {
      const issued = await Promise.all([
        service.bootstrap(chosen, BY),
        service.bootstrap(chosen, BY),
        service.bootstrap(chosen, BY),
      ]);
      expect(issued.filter((key) => key !== undefined)).toHaveLength(1);
      expect(await service.listKeys()).toHaveLength(1);
      expect(await accounts.list()).toHaveLength(1);
    },
  );

  it('refuses a given key of our shape with a wrong checksum', async () => {
    await expect(service.bootstrap(`bao_sk_${'a'.repeat(40)}`, BY)).rejects.toThrow(/checksum/);
    expect(await accounts.list()).toEqual([]);
  });

  it('continues after one that was killed between account and key', async () => {
    await accounts.create('default', {}, BY);
    expect((await service.bootstrap(undefined, BY))?.key.scopes).toEqual(SCOPES);
    expect(await accounts.list()).toHaveLength(1);
  });

  it('creates a key even when accounts exist already', async () => {
    await accounts.create('team', {}, BY);
    expect(await service.bootstrap(undefined, BY)).toBeDefined();
  });
});
