import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditEntry } from '../../packages/core/src/domain/audit/entry.ts';
import type { ApiKey } from '../../packages/core/src/domain/principal.ts';
import type {
  AccountRepository,
  AuditFilter,
  AuditLog,
  KeyRepository,
  ModelLifecycleRepository,
} from '../../packages/core/src/ports/repositories.ts';
import { DuplicateError } from '../../packages/core/src/ports/store-errors.ts';
import { changeEntries } from '../../packages/server/src/services/audit/entries.ts';
import { BY, someEntry } from '../fixtures/audit-entries.ts';
import { account, apiKey } from './key-fixtures.ts';

export interface AuditLogUnderTest {
  audit: AuditLog;
  accounts: AccountRepository;
  keys: KeyRepository;
  lifecycles: ModelLifecycleRepository;
  close(): Promise<void>;
}

const START = Date.UTC(2026, 10, 1);

/** Every store records a change and its entry together. `open` gives an empty one each time. */
export function auditLogContract(name: string, open: () => Promise<AuditLogUnderTest>): void {
  describe(`audit log: ${name}`, () => {
    let store: AuditLogUnderTest;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    const all = (filter: AuditFilter = {}) => store.audit.list(filter, { limit: 1_000 });
    const idsOf = async (filter: AuditFilter) => (await all(filter)).map(({ id }) => id);
    const entry = (id: string, changes: Partial<AuditEntry> = {}): AuditEntry => ({ ...someEntry(), id, ...changes });

    it('gives entries back as they were stored, of changes of all kinds', async () => {
      const full = entry('audit_full', {
        time: START,
        via: 'console',
        actor: { id: 'key_9', name: 'ci "ü" 漢', accountId: 'acct_9', accountName: 'ninth', host: null },
        action: 'account.created',
        changes: [
          { field: 'rpm', before: null, after: 60 },
          { field: 'aliases', before: [], after: ['a=b/c'] },
          { field: 'zeroRetention', before: false, after: true },
        ],
        requestId: 'req_1',
        address: '2001:db8::1',
      });
      const model: AuditEntry['target'] = {
        kind: 'model',
        id: 'a/b',
        name: 'a/b@1',
        accountId: null,
        accountName: null,
      };
      const [key, saved, added] = [
        entry('audit_key', { time: START + 1, action: 'key.created' }),
        entry('audit_saved', { time: START + 2, action: 'model.deprecated', target: model }),
        entry('audit_added', { time: START + 3, action: 'model.added', target: model }),
      ];
      await store.accounts.create(account(), full);
      await store.keys.create(apiKey(), 'hash-1', key);
      const lifecycle = { slug: 'a/b', version: '1', noticeAt: START, deprecatedAt: null, retiredAt: null };
      await store.lifecycles.save(lifecycle, saved);
      await store.audit.append(added);
      expect(await all()).toEqual([added, saved, key, full]);
    });

    it('lists by account, actor, action, target and time, page by page', async () => {
      expect(await idsOf({ accountId: 'acct_1' })).toEqual(['audit_key', 'audit_full']);
      expect(await idsOf({ actorId: 'key_9' })).toEqual(['audit_full']);
      expect(await idsOf({ actorAccountId: 'acct_9' })).toEqual(['audit_full']);
      expect(await idsOf({ actorId: 'operator', action: 'model.added' })).toEqual(['audit_added']);
      expect(await idsOf({ targetId: 'a/b' })).toEqual(['audit_added', 'audit_saved']);
      expect(await idsOf({ start: START + 1, end: START + 3 })).toEqual(['audit_saved', 'audit_key']);
      expect(await idsOf({ accountId: 'acct_none' })).toEqual([]);
      expect(await store.audit.count({ targetId: 'a/b', start: START + 3 })).toBe(1);
      expect(await store.audit.count({ accountId: 'acct_none' })).toBe(0);
      // Two of the same time.
      await store.audit.append(entry('audit_last', { time: START + 3 }));
      const seen: string[] = [];
      for (let before: { time: number; id: string } | undefined; ; ) {
        const [next] = await store.audit.list({}, { limit: 1, before });
        if (next === undefined) break;
        seen.push(next.id);
        before = next;
      }
      expect(seen).toEqual(['audit_last', 'audit_added', 'audit_saved', 'audit_key', 'audit_full']);
    });

    it('has no entry of a change that was not made, and makes no change without an entry', async () => {
      const before = await all();
      const entryOf = () => undefined;
      await expect(store.accounts.create(account({ id: 'acct_2' }), entry('audit_x1'))).rejects.toThrow(DuplicateError);
      await expect(store.keys.create(apiKey(), 'hash-x', entry('audit_x2'))).rejects.toThrow(DuplicateError);
      // The entry itself cannot be stored.
      await expect(store.keys.create(apiKey({ id: 'key_x' }), 'hash-y', entry('audit_key'))).rejects.toThrow();
      expect(await store.keys.get('key_x')).toBeUndefined();
      expect(await store.keys.update('key_none', { rpm: 1 }, someEntry)).toBeUndefined();
      expect(await store.keys.update('key_1', { rpm: 77 }, entryOf)).toEqual(apiKey());
      expect(await store.accounts.update('acct_1', { rpm: 77 }, entryOf)).toEqual(account());
      await expect(store.keys.update('key_1', { rpm: 77 }, () => entry('audit_key'))).rejects.toThrow();
      const refuse = () => {
        throw new Error('refused');
      };
      await expect(store.accounts.update('acct_1', { rpm: 77 }, refuse)).rejects.toThrow('refused');
      expect(await store.accounts.get('acct_1')).toEqual(account());
      expect(await store.keys.get('key_1')).toEqual(apiKey());
      expect(await all()).toEqual(before);
    });

    it('tells the true old value of each of many changes made at once', async () => {
      const id = 'key_many';
      await store.keys.create(apiKey({ id, rpm: 1_000 }), 'hash-many', someEntry());
      const entryOf = changeEntries(BY, START).keyChanged('key.changed', account());
      const values = Array.from({ length: 20 }, (_, index) => index);
      await Promise.all(values.map((rpm) => store.keys.update(id, { rpm }, entryOf)));
      const changes = (await all({ targetId: id })).flatMap((each) => each.changes);
      expect(changes.map(({ after }) => after).toSorted()).toEqual(values.toSorted());
      const next = new Map(changes.map(({ before, after }) => [before, after]));
      let [value, steps]: [ApiKey['rpm'], number] = [1_000, 0];
      for (; next.has(value); steps += 1) value = next.get(value) as number;
      expect(steps).toBe(values.length);
      expect((await store.keys.get(id))?.rpm).toBe(value);
    });

    it('removes what is older', async () => {
      const count = await store.audit.count({});
      expect(await store.audit.removeOlder(START + 2)).toBe(count - 3);
      expect(await idsOf({})).toEqual(['audit_last', 'audit_added', 'audit_saved']);
      expect(await store.audit.removeOlder(START + 2)).toBe(0);
    });
  });
}
