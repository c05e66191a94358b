import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiKey, KeyRights } from '../../packages/core/src/domain/principal.ts';
import type {
  AccountRepository,
  KeyRepository,
  ModelLifecycleRepository,
  RevisionRepository,
} from '../../packages/core/src/ports/repositories.ts';
import { DuplicateError } from '../../packages/core/src/ports/store-errors.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account, apiKey } from './key-fixtures.ts';

export interface RepositoriesUnderTest {
  accounts: AccountRepository;
  keys: KeyRepository;
  lifecycles: ModelLifecycleRepository;
  revisions: RevisionRepository;
  close(): Promise<void>;
}

/** Every store of accounts, keys and model decisions behaves like this. `open` gives an empty one each time. */
export function repositoriesContract(name: string, open: () => Promise<RepositoriesUnderTest>): void {
  describe(`repositories: ${name}`, () => {
    let store: RepositoriesUnderTest;
    beforeAll(async () => {
      store = await open();
      await store.accounts.create(account(), someEntry());
      await store.keys.create(apiKey(), 'hash-1', someEntry());
    });
    afterAll(() => store.close());

    it('gives back an account as it was stored', async () => {
      expect(await store.accounts.get('acct_1')).toEqual(account());
      expect(await store.accounts.findByName('first')).toEqual(account());
      expect(await store.accounts.get('acct_none')).toBeUndefined();
      expect(await store.accounts.findByName('none')).toBeUndefined();
    });

    it('finds nothing under a name with U+0000, and stores a text with it', async () => {
      expect(await store.accounts.get('acct_1\0')).toBeUndefined();
      expect(await store.accounts.findByName('first\0')).toBeUndefined();
      expect(await store.keys.update('key_1\0', { rpm: 1 }, someEntry)).toBeUndefined();
      expect((await store.keys.update('key_1', { name: 'a\0b' }, someEntry))?.name).toMatch(/^a.b$/s);
      await store.keys.update('key_1', { name: apiKey().name }, someEntry);
    });

    it('refuses a second account with the same name or id', async () => {
      await expect(store.accounts.create(account({ id: 'acct_x' }), someEntry())).rejects.toThrow(DuplicateError);
      await expect(store.accounts.create(account({ name: 'x' }), someEntry())).rejects.toThrow(DuplicateError);
    });

    it('changes an account and lists the oldest first', async () => {
      const second = account({ id: 'acct_0', name: 'second', createdAt: Date.UTC(2026, 1, 1) });
      await store.accounts.create(second, someEntry());
      const limits = {
        rpm: 5,
        tpm: 6,
        concurrency: 9,
        monthlyBudgetNanoUsd: 7,
        zeroRetention: false,
        storePrompts: true,
        fileRetentionDays: 8,
        weight: 10,
        aliases: [{ name: 'gpt-4o', model: 'acme/writer@2026-01-31' }],
      };
      expect(await store.accounts.update('acct_0', limits, someEntry)).toEqual({ ...second, ...limits });
      const changed = await store.accounts.update('acct_0', { rpm: null, tpm: undefined }, someEntry);
      expect(changed).toEqual({ ...second, ...limits, rpm: null });
      expect(await store.accounts.update('acct_0', {}, someEntry)).toEqual(changed);
      expect(await store.accounts.get('acct_0')).toEqual(changed);
      expect(await store.accounts.update('acct_none', limits, someEntry)).toBeUndefined();
      const many = await store.accounts.getMany(['acct_0', 'acct_none', 'acct_1']);
      expect(new Set(many.map(({ id }) => id))).toEqual(new Set(['acct_0', 'acct_1']));
      expect(await store.accounts.getMany([])).toEqual([]);
      const suspendedAt = Date.UTC(2026, 2, 1);
      expect(await store.accounts.update('acct_0', { suspendedAt }, someEntry)).toEqual({ ...changed, suspendedAt });
      expect((await store.accounts.get('acct_0'))?.suspendedAt).toBe(suspendedAt);
      expect(await store.accounts.update('acct_0', { suspendedAt: null }, someEntry)).toEqual(changed);
      const deleted = { name: 'second acct_0', deletedAt: suspendedAt, erasedAt: suspendedAt + 1 };
      expect(await store.accounts.update('acct_0', deleted, someEntry)).toEqual({ ...changed, ...deleted });
      expect(await store.accounts.findByName('second')).toBeUndefined();
      const restored = { name: 'second', deletedAt: null, erasedAt: null };
      expect(await store.accounts.update('acct_0', restored, someEntry)).toEqual(changed);
      expect(await store.accounts.list()).toEqual([account(), changed]);
    });

    it('gives back a key as it was stored, by id and by hash', async () => {
      expect(await store.keys.get('key_1')).toEqual(apiKey());
      expect(await store.keys.findByHash('hash-1')).toEqual({ key: apiKey(), account: account(), hash: 'hash-1' });
      expect(await store.keys.get('key_none')).toBeUndefined();
      expect(await store.keys.findByHash('hash-none')).toBeUndefined();
    });

    it('refuses a key with a known hash, a known id or an unknown account', async () => {
      await expect(store.keys.create(apiKey({ id: 'key_x' }), 'hash-1', someEntry())).rejects.toThrow(DuplicateError);
      await expect(store.keys.create(apiKey(), 'hash-x', someEntry())).rejects.toThrow(DuplicateError);
      await expect(
        store.keys.create(apiKey({ id: 'key_y', accountId: 'acct_none' }), 'hash-y', someEntry()),
      ).rejects.toThrow();
      expect(await store.keys.get('key_x')).toBeUndefined();
      expect(await store.keys.get('key_y')).toBeUndefined();
    });

    it('lists the keys of one account or of all', async () => {
      const other = apiKey({ id: 'key_2', accountId: 'acct_0', createdAt: Date.UTC(2026, 2, 1) });
      await store.keys.create(other, 'hash-2', someEntry());
      expect(await store.keys.list({})).toEqual([apiKey(), other]);
      expect(await store.keys.list({ accountId: 'acct_0' })).toEqual([other]);
      expect(await store.keys.list({ accountId: 'acct_none' })).toEqual([]);
    });

    it('lists keys and accounts in parts, also those of one millisecond', async () => {
      const same = { accountId: 'acct_0', createdAt: Date.UTC(2026, 2, 2) };
      const [first, second] = [apiKey({ id: 'key_a', ...same }), apiKey({ id: 'key_b', ...same })];
      await store.keys.create(second, 'hash-b', someEntry());
      await store.keys.create(first, 'hash-a', someEntry());
      const pages = [];
      for (let after: typeof first | undefined; ; ) {
        const page = await store.keys.list({ accountId: 'acct_0', after, limit: 1 });
        after = page[0];
        if (after === undefined) break;
        pages.push(page.map(({ id }) => id));
      }
      expect(pages).toEqual([['key_2'], ['key_a'], ['key_b']]);
      expect((await store.keys.list({ after: apiKey(), limit: 2 })).map(({ id }) => id)).toEqual(['key_2', 'key_a']);
      expect((await store.accounts.list({ limit: 1 })).map(({ id }) => id)).toEqual(['acct_1']);
      expect((await store.accounts.list({ after: account(), limit: 9 })).map(({ id }) => id)).toEqual(['acct_0']);
    });

    it('finds keys and accounts by a part of their name, their prefix or their id, newest first, and those with a budget', async () => {
      const key = (id: string, name: string, more: Partial<ApiKey> = {}) =>
        apiKey({ id, name, prefix: `bao_${id}`, accountId: 'acct_0', createdAt: Date.UTC(2026, 3, 1), ...more });
      const made = [
        key('key_c1', 'Billing 100%', { monthlyBudgetNanoUsd: null }),
        key('key_c2', 'billing_100x', { monthlyBudgetNanoUsd: 5 }),
        key('key_c3', 'Zürich'),
      ];
      for (const each of made) await store.keys.create(each, `hash-${each.id}`, someEntry());
      const found = async (filter: Parameters<typeof store.keys.list>[0]) =>
        (await store.keys.list({ accountId: 'acct_0', ...filter })).map(({ id }) => id);
      expect(await found({ search: 'BILLING' })).toEqual(['key_c1', 'key_c2']);
      expect(await found({ search: 'billing', newestFirst: true, limit: 1 })).toEqual(['key_c2']);
      expect(await found({ search: 'billing', newestFirst: true, after: made[1] })).toEqual(['key_c1']);
      expect(await found({ search: '100%' })).toEqual(['key_c1']);
      expect(await found({ search: 'ing_1' })).toEqual(['key_c2']);
      expect(await found({ search: 'Zürich' })).toEqual(['key_c3']);
      expect(await found({ search: 'key_c3' })).toEqual(['key_c3']);
      expect(await found({ search: "'; --" })).toEqual([]);
      expect(await found({ search: '100', hasBudget: true })).toEqual(['key_c2']);
      const accounts = async (search: string) => (await store.accounts.list({ search })).map(({ id }) => id);
      expect(await accounts('SECO')).toEqual(['acct_0']);
      expect(await accounts('acct_0')).toEqual(['acct_0']);
    });

    it('changes only the given fields of a key', async () => {
      const key = apiKey({ id: 'key_3', expiresAt: Date.UTC(2027, 0, 1) });
      await store.keys.create(key, 'hash-3', someEntry());
      expect(await store.keys.update('key_3', { revokedAt: Date.UTC(2026, 4, 1) }, someEntry)).toEqual({
        ...key,
        revokedAt: Date.UTC(2026, 4, 1),
      });
      const changed = await store.keys.update(
        'key_3',
        { name: 'renamed', expiresAt: null, revokedAt: null },
        someEntry,
      );
      expect(changed).toEqual({ ...key, name: 'renamed', expiresAt: null });
      expect(await store.keys.get('key_3')).toEqual(changed);
      expect(await store.keys.update('key_3', { rpm: undefined }, someEntry)).toEqual(changed);
      const rights: KeyRights = {
        name: 'other',
        scopes: ['files'],
        allowedModels: [],
        allowedRegions: ['eu-2'],
        allowedAddresses: ['2001:db8::/32'],
        rpm: null,
        tpm: 5,
        concurrency: 6,
        monthlyBudgetNanoUsd: 7,
        priority: 'low',
        dialect: 'openai',
        truncateInputs: 'start',
        expiresAt: Date.UTC(2027, 1, 1),
      };
      expect(await store.keys.update('key_3', rights, someEntry)).toEqual({ ...key, ...rights });
      expect(await store.keys.get('key_3')).toEqual({ ...key, ...rights });
      expect(await store.keys.update('key_none', { name: 'x' }, someEntry)).toBeUndefined();
    });

    it('counts keys that can be used or are new', async () => {
      const [now, before] = [Date.UTC(2026, 5, 1), Date.UTC(2026, 4, 1)];
      const owner = account({ id: 'acct_counted', name: 'counted' });
      await store.accounts.create(owner, someEntry());
      const kinds = {
        usable: {},
        'usable until later': { expiresAt: now + 1 },
        expired: { expiresAt: now },
        revoked: { revokedAt: now - 1 },
        'revoked and new': { revokedAt: now - 1, createdAt: before },
      };
      for (const [name, fields] of Object.entries(kinds)) {
        const key = apiKey({ id: `key_${name}`, accountId: owner.id, createdAt: before - 1, ...fields });
        await store.keys.create(key, `hash-${name}`, someEntry());
      }
      expect(await store.keys.count(owner.id, { now, madeSince: before })).toBe(3);
      expect(await store.keys.count('acct_none', { now, madeSince: before })).toBe(0);
    });

    it('notes the last use, never moves it back, and bumps no revision for it', async () => {
      await store.keys.create(apiKey({ id: 'key_4' }), 'hash-4', someEntry());
      const before = await store.revisions.current();
      await store.keys.touch([
        { id: 'key_4', lastUsedAt: Date.UTC(2026, 3, 2) },
        { id: 'key_none', lastUsedAt: Date.UTC(2026, 3, 2) },
      ]);
      await store.keys.touch([{ id: 'key_4', lastUsedAt: Date.UTC(2026, 3, 1) }]);
      await store.keys.touch([]);
      expect((await store.keys.get('key_4'))?.lastUsedAt).toBe(Date.UTC(2026, 3, 2));
      expect(await store.revisions.current()).toEqual(before);
    });

    it('saves what operators decided about a version, the last decision wins', async () => {
      const first = {
        slug: 'a/b',
        version: '2026-01-01',
        noticeAt: Date.UTC(2026, 0, 1),
        deprecatedAt: null,
        retiredAt: null,
      };
      await store.lifecycles.save(first, someEntry());
      await store.lifecycles.save({ ...first, version: '2025-01-01' }, someEntry());
      await store.lifecycles.save({ ...first, deprecatedAt: Date.UTC(2026, 4, 1) }, someEntry());
      expect(await store.lifecycles.list()).toEqual([
        { ...first, version: '2025-01-01' },
        { ...first, deprecatedAt: Date.UTC(2026, 4, 1) },
      ]);
    });

    it('bumps the revision of the topic with every change, and not when nothing changes', async () => {
      const start = await store.revisions.current();
      await store.accounts.create(account({ id: 'acct_9', name: 'ninth' }), someEntry());
      await store.keys.create(apiKey({ id: 'key_9' }), 'hash-9', someEntry());
      await store.keys.update('key_9', { name: 'x' }, someEntry);
      await store.accounts.update('acct_9', { rpm: 1 }, someEntry);
      await store.accounts.update('acct_9', {}, someEntry);
      await store.accounts.update('acct_none', { rpm: 1 }, someEntry);
      await store.keys.update('key_9', { name: undefined }, someEntry);
      await store.keys.update('key_none', { name: 'x' }, someEntry);
      await expect(store.keys.create(apiKey({ id: 'key_9' }), 'hash-9', someEntry())).rejects.toThrow(DuplicateError);
      await store.lifecycles.save(
        {
          slug: 'c/d',
          version: '2026-01-01',
          noticeAt: Date.UTC(2026, 0, 1),
          deprecatedAt: null,
          retiredAt: null,
        },
        someEntry(),
      );
      expect(await store.revisions.current()).toEqual({ keys: start.keys + 4, models: start.models + 1 });
    });

    it('says which keys and accounts a revision changed', async () => {
      const { keys: start } = await store.revisions.current();
      await store.accounts.create(account({ id: 'acct_10', name: 'tenth' }), someEntry());
      await store.keys.create(apiKey({ id: 'key_10', accountId: 'acct_10' }), 'hash-10', someEntry());
      await store.keys.update('key_10', { name: 'x' }, someEntry);
      await store.keys.update('key_none', { name: 'x' }, someEntry);
      await store.keys.touch([{ id: 'key_10', lastUsedAt: Date.UTC(2026, 3, 2) }]);
      await store.accounts.update('acct_10', { rpm: 1 }, someEntry);
      const ofKey = { keyId: 'key_10', hash: 'hash-10' };
      const ofAccount = { accountId: 'acct_10' };
      expect(await store.revisions.keyChanges(start, start + 4)).toEqual([ofAccount, ofKey, ofKey, ofAccount]);
      expect(await store.revisions.keyChanges(start + 2, start + 3)).toEqual([ofKey]);
      expect(await store.revisions.keyChanges(start, start)).toEqual([]);
    });

    it('does not know changes that have not happened, or were followed by a thousand others', async () => {
      const { keys: start } = await store.revisions.current();
      expect(await store.revisions.keyChanges(start, start + 1)).toBeUndefined();
      expect(await store.revisions.keyChanges(start, start - 1)).toBeUndefined();
      // New accounts, because each takes one round trip. A change of an account takes three.
      for (let number = 0; number < 1_001; number += 1) {
        await store.accounts.create(account({ id: `acct_many_${number}`, name: `many ${number}` }), someEntry());
      }
      expect(await store.revisions.keyChanges(start, start + 1_001)).toBeUndefined();
      expect(await store.revisions.keyChanges(start, start + 1)).toBeUndefined();
      expect(await store.revisions.keyChanges(start + 1, start + 1_001)).toHaveLength(1_000);
    }, 60_000);

    it('keeps every one of many changes made at once', async () => {
      const start = await store.revisions.current();
      const ids = Array.from({ length: 200 }, (_, index) => `key_many_${index}`);
      await Promise.all(ids.map((id) => store.keys.create(apiKey({ id }), `hash-${id}`, someEntry())));
      const stored = new Set((await store.keys.list({ accountId: 'acct_1' })).map((key) => key.id));
      expect(ids.filter((id) => !stored.has(id))).toEqual([]);
      expect((await store.revisions.current()).keys).toBe(start.keys + 200);
      const changed = (await store.revisions.keyChanges(start.keys, start.keys + 200)) ?? [];
      expect(new Set(changed.map((change) => ('keyId' in change ? change.keyId : '')))).toEqual(new Set(ids));
    });
  });
}
