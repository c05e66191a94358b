import type { Account } from '@baobab/core/domain/principal.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { BY } from '../../../../../test/fixtures/audit-entries.ts';
import { memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { type AccountsService, createAccounts } from './accounts.ts';

let service: AccountsService;
let account: Account;
let now: number;

beforeEach(async () => {
  now = Date.parse('2026-11-15T08:00:00Z');
  service = createAccounts({ ...memoryRepositories(), clock: { now: () => now } });
  account = await service.create('team', {}, BY);
});

describe('accounts', () => {
  it('have names of their own, also when two are created at once', async () => {
    const both = await Promise.allSettled([service.create('twins', {}, BY), service.create('twins', {}, BY)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(service.create('team', {}, BY)).rejects.toMatchObject({ code: 'invalid_parameter', param: 'name' });
  });

  it.each(['', ' team', '-team', 'a/b', 'x'.repeat(65), 'line\nbreak'])('may not be called %j', async (name) => {
    await expect(service.create(name, {}, BY)).rejects.toMatchObject({ param: 'name' });
  });

  it('are found by id and by name', async () => {
    expect(await service.find(account.id)).toEqual(account);
    expect(await service.find('team')).toEqual(account);
    expect(await service.find('none')).toBeUndefined();
  });

  it('change the given limits and nothing else', async () => {
    expect(await service.update(account, { tpm: 7 }, BY)).toEqual({ ...account, tpm: 7 });
    expect(await service.find('team')).toEqual({ ...account, tpm: 7 });
  });

  it('keep the time of their first suspension until they are resumed', async () => {
    const suspended = await service.suspend(account, BY);
    expect(suspended).toEqual({ ...account, suspendedAt: now });
    now += 1000;
    expect(await service.suspend(suspended, BY)).toEqual(suspended);
    expect(await service.resume(suspended, BY)).toEqual(account);
    expect(await service.resume(account, BY)).toEqual(account);
    expect(await service.find('team')).toEqual(account);
  });
});
