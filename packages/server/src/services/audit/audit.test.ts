import type { Account } from '@baobab/core/domain/principal.ts';
import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import { beforeEach, describe, expect, it } from 'vitest';
import { BY } from '../../../../../test/fixtures/audit-entries.ts';
import { type MemoryRepositories, memoryRepositories } from '../../../../../test/fixtures/memory-repositories.ts';
import { type AccountsService, createAccounts } from '../access/accounts.ts';
import { createKeys, type KeysService } from '../access/keys.ts';
import { createAudit } from './audit.ts';

let now: number;
let store: MemoryRepositories;
let accounts: AccountsService;
let keys: KeysService;
let account: Account;
const clock = { now: () => now };

beforeEach(async () => {
  now = Date.UTC(2026, 10, 15);
  store = memoryRepositories();
  accounts = createAccounts({ ...store, clock });
  keys = createKeys({ keys: store.keys, accounts, clock });
  account = await accounts.create('team', { rpm: 5 }, BY);
});

/** Oldest first. */
const all = async () => (await store.audit.list({}, { limit: 1_000 })).toReversed();

describe('the audit log', () => {
  it('has an entry of every change of an account', async () => {
    const steps = [
      () => accounts.update(account, { rpm: 7, aliases: [{ name: 'gpt', model: 'a/b' }] }, BY),
      () => accounts.update(account, { rpm: 7 }, BY),
      async () => accounts.suspend((await accounts.find(account.id)) as Account, BY),
      async () => accounts.resume((await accounts.find(account.id)) as Account, BY),
      () => accounts.delete(account, BY),
    ];
    for (const step of steps) {
      now += 1;
      await step();
    }
    const target = { kind: 'account', id: account.id, name: 'team', accountId: account.id, accountName: 'team' };
    const start = now - steps.length;
    expect((await all()).map(({ id: _, ...entry }) => entry)).toEqual([
      { ...BY, time: start, action: 'account.created', target, changes: [{ field: 'rpm', before: null, after: 5 }] },
      {
        ...BY,
        time: start + 1,
        action: 'account.changed',
        target,
        changes: [
          { field: 'rpm', before: 5, after: 7 },
          { field: 'aliases', before: [], after: ['gpt=a/b'] },
        ],
      },
      {
        ...BY,
        time: start + 3,
        action: 'account.suspended',
        target,
        changes: [{ field: 'suspendedAt', before: null, after: start + 3 }],
      },
      {
        ...BY,
        time: start + 4,
        action: 'account.resumed',
        target,
        changes: [{ field: 'suspendedAt', before: start + 3, after: null }],
      },
      {
        ...BY,
        time: start + 5,
        action: 'account.deleted',
        target,
        changes: [{ field: 'deletedAt', before: null, after: start + 5 }],
      },
    ]);
  });

  it('has an entry of every change of a key, and no secret', async () => {
    const { key, secret } = await keys.createKey(account, { name: 'ci', scopes: ['chat'], rpm: 60 }, BY);
    now += 1;
    await keys.updateKey(key.id, { name: 'ci 2', rpm: null }, BY);
    now += 1;
    const rotated = await keys.rotateKey(key.id, { graceMs: DAY_MS }, BY);
    now += 1;
    await keys.revokeKey(key.id, BY);
    await keys.revokeKey(key.id, BY);
    await expect(keys.updateKey(key.id, { rpm: 1 }, BY)).rejects.toMatchObject({ code: 'invalid_parameter' });
    const entries = await all();
    const changes = entries
      .slice(1)
      .map(({ action, target, changes }) => [
        action,
        target.id,
        target.name,
        Object.fromEntries(changes.map(({ field, before, after }) => [field, [before, after]])),
      ]);
    const renewed = rotated?.key.id ?? '';
    expect(changes).toEqual([
      ['key.created', key.id, 'ci', { scopes: [null, ['chat']], rpm: [null, 60] }],
      ['key.changed', key.id, 'ci', { name: ['ci', 'ci 2'], rpm: [60, null] }],
      ['key.created', renewed, 'ci 2', { scopes: [null, ['chat']], rotatedFrom: [null, key.id] }],
      ['key.rotated', key.id, 'ci 2', { expiresAt: [null, now - 1 + DAY_MS], replacedBy: [null, renewed] }],
      ['key.revoked', key.id, 'ci 2', { revokedAt: [null, now] }],
    ]);
    for (const hidden of [secret, rotated?.secret ?? '-', secret.slice(11)]) {
      expect(JSON.stringify(entries)).not.toContain(hidden);
    }
  });

  it('keeps entries for the time that is set, and gives them page by page', async () => {
    const audit = createAudit({ log: store.audit, settings: { retentionDays: 2 }, clock });
    now += 2 * DAY_MS;
    await accounts.create('second', {}, BY);
    await audit.sweep();
    expect((await all()).map(({ target }) => target.name)).toEqual(['team', 'second']);
    now += 1;
    await audit.sweep();
    expect((await all()).map(({ target }) => target.name)).toEqual(['second']);
    now += 1;
    await accounts.create('third', {}, BY);
    const first = await audit.list({}, { limit: 1 });
    expect(first.entries.map(({ target }) => target.name)).toEqual(['third']);
    const second = await audit.list({}, { limit: 1, before: first.next });
    expect(second.entries.map(({ target }) => target.name)).toEqual(['second']);
    expect(second.next).toBeUndefined();
  });
});
