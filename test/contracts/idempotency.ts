import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { IdempotencyClaim, IdempotencyRepository } from '../../packages/core/src/ports/idempotency.ts';
import type { AccountRepository } from '../../packages/core/src/ports/repositories.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';

export interface IdempotencyUnderTest {
  accounts: AccountRepository;
  idempotency: IdempotencyRepository;
  close(): Promise<void>;
}

const NO_QUOTA = { items: 0, bytes: 0 };

/** Every store of idempotent requests behaves like this. `open` gives an empty one. */
export function idempotencyContract(name: string, open: () => Promise<IdempotencyUnderTest>): void {
  describe(`idempotency: ${name}`, () => {
    let store: IdempotencyUnderTest;
    let ids = 0;
    beforeAll(async () => {
      store = await open();
      for (const id of ['1', '2', '3', '4', '5', '6'])
        await store.accounts.create(account({ id: `acct_${id}`, name: id }), someEntry());
    });
    afterAll(() => store.close());

    const newClaim = (changes: Partial<IdempotencyClaim> = {}): IdempotencyClaim => ({
      id: `id_${ids++}`,
      accountId: 'acct_1',
      bodyHash: 'body',
      runId: 'run_1',
      ownerId: 'owner_1',
      leaseUntil: 1_100,
      expiresAt: 9_000,
      now: 1_000,
      ...changes,
    });
    const answer = {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from([0, 1, 255]),
      bytes: 3,
    };
    const claimed = async (claim: IdempotencyClaim, quota = NO_QUOTA) => {
      const result = await store.idempotency.claim(claim, quota);
      if (result === undefined) throw new Error('over quota');
      return result;
    };
    const complete = (claim: IdempotencyClaim, stored = answer) => store.idempotency.complete(claim, stored, NO_QUOTA);

    it('claims a new record once', async () => {
      const claim = newClaim();
      const { now: _, ...fields } = claim;
      const record = { ...fields, answer: null };
      expect(await claimed(claim)).toEqual({ claimed: true, record, replacedRunId: undefined });
      const second = { ...claim, runId: 'run_2', ownerId: 'owner_2' };
      expect(await claimed(second)).toEqual({ claimed: false, record, replacedRunId: undefined });
    });

    it('lets one of many claim at the same time', async () => {
      const claim = newClaim();
      const results = await Promise.all(
        Array.from({ length: 30 }, (_, index) => claimed({ ...claim, ownerId: `owner_${index}` })),
      );
      expect(results.filter((result) => result.claimed)).toHaveLength(1);
    });

    it('gives back the bytes of an answer', async () => {
      const claim = newClaim();
      await claimed(claim);
      expect(await complete(claim, answer)).toBe('stored');
      const { claimed: isClaimed, record } = await claimed({ ...claim, now: 5_000, ownerId: 'owner_2' });
      expect(isClaimed).toBe(false);
      expect(record.answer).toMatchObject({ status: 200, headers: answer.headers });
      expect(Buffer.from(record.answer?.body ?? [])).toEqual(answer.body);
      expect(await complete(claim, { ...answer, status: 400 })).toBe('lost');
    });

    it('hands a run over when its lease is over, under the same run id, and not for another body', async () => {
      const claim = newClaim();
      await claimed(claim);
      const heir = { ...claim, runId: 'run_2', ownerId: 'owner_2', now: 1_100, leaseUntil: 1_200 };
      expect((await claimed({ ...heir, bodyHash: 'other' })).claimed).toBe(false);
      expect((await claimed({ ...heir, now: 1_099 })).claimed).toBe(false);
      expect(await claimed(heir)).toMatchObject({
        claimed: true,
        record: { runId: 'run_1', ownerId: 'owner_2', leaseUntil: 1_200 },
      });
      expect(await complete(claim, answer)).toBe('lost');
      expect(await complete({ ...heir, runId: 'run_1' }, answer)).toBe('stored');
    });

    it('lets an owner claim its own run again', async () => {
      const claim = newClaim();
      await claimed(claim);
      expect((await claimed(claim)).claimed).toBe(true);
    });

    it('renews the leases that are named, if their owner still has them', async () => {
      const [kept, left, lost, answered] = [1, 2, 3, 4].map(() => newClaim({ ownerId: 'owner_renewing' }));
      if (!kept || !left || !lost || !answered) throw new Error('four claims are needed');
      for (const claim of [kept, left, answered]) await claimed(claim);
      await claimed({ ...lost, ownerId: 'owner_2' });
      await complete(answered);
      const named = [kept, lost, answered].map(({ id }) => id);
      expect(await store.idempotency.renew('owner_renewing', named, 2_000)).toEqual([kept.id]);
      const heir = (claim: IdempotencyClaim, now: number) => claimed({ ...claim, ownerId: 'owner_3', now });
      expect((await heir(kept, 1_999)).claimed).toBe(false);
      expect((await heir(kept, 2_000)).claimed).toBe(true);
      expect((await heir(left, 1_100)).claimed).toBe(true);
      expect((await heir(lost, 1_099)).claimed).toBe(false);
      expect(await store.idempotency.renew('owner_renewing', [], 2_000)).toEqual([]);
    });

    it('ends a lease early, for one run or for all owners but one', async () => {
      const [released, others, own] = [
        newClaim(),
        newClaim({ ownerId: 'owner_dead' }),
        newClaim({ ownerId: 'owner_alive' }),
      ];
      for (const claim of [released, others, own]) await claimed(claim);
      await store.idempotency.release(released);
      await store.idempotency.releaseOthers('owner_alive');
      const stranger = { ownerId: 'owner_2', now: 1_001 };
      expect((await claimed({ ...released, ...stranger })).claimed).toBe(true);
      expect((await claimed({ ...others, ...stranger })).claimed).toBe(true);
      expect((await claimed({ ...own, ...stranger })).claimed).toBe(false);
    });

    it('forgets an abandoned run, but only for its owner', async () => {
      const claim = newClaim();
      await claimed(claim);
      await store.idempotency.abandon({ ...claim, ownerId: 'owner_2' });
      const second = { ...claim, runId: 'run_2', ownerId: 'owner_2', bodyHash: 'other' };
      expect((await claimed(second)).claimed).toBe(false);
      await store.idempotency.abandon(claim);
      expect(await claimed(second)).toMatchObject({ claimed: true, record: { runId: 'run_2' } });
    });

    it('starts anew when a record has expired, even with another body', async () => {
      const claim = newClaim();
      await claimed(claim);
      await complete(claim, answer);
      const later = { ...claim, runId: 'run_2', bodyHash: 'other', now: 9_000, leaseUntil: 9_100, expiresAt: 18_000 };
      expect(await claimed(later)).toMatchObject({
        claimed: true,
        record: { runId: 'run_2', bodyHash: 'other', answer: null },
        replacedRunId: 'run_1',
      });
    });

    it('removes expired records, a bounded number at a time', async () => {
      const claims = [1, 2, 3].map(() => newClaim({ expiresAt: 500, now: 100, leaseUntil: 200 }));
      for (const claim of claims) await claimed(claim);
      const first = await store.idempotency.deleteExpired(500, 2);
      const second = await store.idempotency.deleteExpired(500, 2);
      expect([...first, ...second].map(({ id }) => id).sort()).toEqual(claims.map(({ id }) => id).sort());
      expect(first).toHaveLength(2);
      expect(await store.idempotency.deleteExpired(500, 2)).toEqual([]);
    });

    it('removes the records of an account that no process is running', async () => {
      const of = { accountId: 'acct_6', leaseUntil: 1_100, now: 1_000 };
      const [done, lost, running] = [newClaim(of), newClaim(of), newClaim({ ...of, leaseUntil: 9_000 })];
      const other = newClaim();
      for (const claim of [done, lost, running, other]) await claimed(claim);
      await complete(done);
      await complete(other);
      const removed = await store.idempotency.deleteOfAccount('acct_6', { now: 1_100, limit: 9 });
      expect(removed.map(({ id }) => id).sort()).toEqual([done.id, lost.id].sort());
      expect(await store.idempotency.stored('acct_6')).toEqual({ items: 1, bytes: 0 });
      expect(await store.idempotency.deleteOfAccount('acct_6', { now: 1_100, limit: 9 })).toEqual([]);
      const again = await claimed({ ...other, ownerId: 'owner_9' });
      expect(again.record.answer).not.toBeNull();
    });

    it('refuses new keys over the quota of an account, and only those', async () => {
      const quota = { items: 3, bytes: 0 };
      const claims = Array.from({ length: 8 }, () => newClaim({ accountId: 'acct_2' }));
      const results = await Promise.all(claims.map((claim) => store.idempotency.claim(claim, quota)));
      const [first] = claims.filter((_, index) => results[index] !== undefined);
      if (first === undefined) throw new Error('none was claimed');
      expect(results.filter((result) => result !== undefined)).toHaveLength(3);
      expect(await store.idempotency.stored('acct_2')).toEqual({ items: 3, bytes: 0 });
      const again = { ...first, ownerId: 'owner_2' };
      expect(await store.idempotency.claim(again, quota)).toMatchObject({ claimed: false });
      await claimed(newClaim({ accountId: 'acct_5' }), quota);
      await store.idempotency.abandon(first);
      await claimed(newClaim({ accountId: 'acct_2' }), quota);
      expect(await store.idempotency.claim(newClaim({ accountId: 'acct_2' }), quota)).toBeUndefined();
    });

    it('stores no answer over the quota of bytes and forgets its run', async () => {
      const quota = { items: 0, bytes: 5 };
      const [one, two] = [newClaim({ accountId: 'acct_3' }), newClaim({ accountId: 'acct_3' })];
      await claimed(one);
      await claimed(two);
      expect(await store.idempotency.complete(one, answer, quota)).toBe('stored');
      expect(await store.idempotency.complete(two, answer, quota)).toBe('over quota');
      expect(await store.idempotency.stored('acct_3')).toEqual({ items: 1, bytes: 3 });
      const retry = await claimed({ ...two, runId: 'run_2', ownerId: 'owner_2' });
      expect(retry).toMatchObject({ claimed: true, record: { runId: 'run_2', answer: null } });
      expect(await store.idempotency.complete(two, { ...answer, bytes: 6 }, quota)).toBe('lost');
    });

    it('takes expired records off the amounts, once', async () => {
      const expiring = { accountId: 'acct_4', expiresAt: 2_000 };
      const claims = [newClaim(expiring), newClaim(expiring), newClaim(expiring)];
      for (const claim of claims) await claimed(claim);
      for (const claim of claims.slice(0, 2)) await complete(claim);
      expect(await store.idempotency.stored('acct_4')).toEqual({ items: 3, bytes: 6 });
      await claimed({ ...newClaim(), id: claims[0]?.id ?? '', accountId: 'acct_4', now: 2_000 });
      expect(await store.idempotency.stored('acct_4')).toEqual({ items: 3, bytes: 3 });
      await Promise.all([store.idempotency.deleteExpired(2_000, 10), store.idempotency.deleteExpired(2_000, 10)]);
      expect(await store.idempotency.stored('acct_4')).toEqual({ items: 1, bytes: 0 });
    });
  });
}
