import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { IdempotencyClaim, IdempotencyRepository } from '../../src/ports/idempotency.ts';

export interface IdempotencyUnderTest {
  idempotency: IdempotencyRepository;
  close(): Promise<void>;
}

/** Every store of idempotent requests behaves like this. `open` gives an empty one. */
export function idempotencyContract(name: string, open: () => Promise<IdempotencyUnderTest>): void {
  describe(`idempotency: ${name}`, () => {
    let store: IdempotencyUnderTest;
    let ids = 0;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    const newClaim = (changes: Partial<IdempotencyClaim> = {}): IdempotencyClaim => ({
      id: `id_${ids++}`,
      bodyHash: 'body',
      runId: 'run_1',
      ownerId: 'owner_1',
      leaseUntil: 1_100,
      expiresAt: 9_000,
      now: 1_000,
      ...changes,
    });
    const answer = { status: 200, headers: { 'content-type': 'application/json' }, body: Buffer.from([0, 1, 255]) };

    it('claims a new record once', async () => {
      const claim = newClaim();
      const { id, bodyHash, runId, ownerId, leaseUntil, expiresAt } = claim;
      const record = { id, bodyHash, runId, ownerId, leaseUntil, expiresAt, answer: null };
      expect(await store.idempotency.claim(claim)).toEqual({ claimed: true, record, replacedRunId: undefined });
      const second = { ...claim, runId: 'run_2', ownerId: 'owner_2' };
      expect(await store.idempotency.claim(second)).toEqual({ claimed: false, record, replacedRunId: undefined });
    });

    it('lets one of many claim at the same time', async () => {
      const claim = newClaim();
      const results = await Promise.all(
        Array.from({ length: 30 }, (_, index) => store.idempotency.claim({ ...claim, ownerId: `owner_${index}` })),
      );
      expect(results.filter(({ claimed }) => claimed)).toHaveLength(1);
    });

    it('gives back the bytes of an answer', async () => {
      const claim = newClaim();
      await store.idempotency.claim(claim);
      expect(await store.idempotency.complete(claim, answer)).toBe(true);
      const { claimed, record } = await store.idempotency.claim({ ...claim, now: 5_000, ownerId: 'owner_2' });
      expect(claimed).toBe(false);
      expect(record.answer).toMatchObject({ status: 200, headers: answer.headers });
      expect(Buffer.from(record.answer?.body ?? [])).toEqual(answer.body);
      expect(await store.idempotency.complete(claim, { ...answer, status: 400 })).toBe(false);
    });

    it('hands a run over when its lease is over, under the same run id, and not for another body', async () => {
      const claim = newClaim();
      await store.idempotency.claim(claim);
      const heir = { ...claim, runId: 'run_2', ownerId: 'owner_2', now: 1_100, leaseUntil: 1_200 };
      expect((await store.idempotency.claim({ ...heir, bodyHash: 'other' })).claimed).toBe(false);
      expect((await store.idempotency.claim({ ...heir, now: 1_099 })).claimed).toBe(false);
      expect(await store.idempotency.claim(heir)).toMatchObject({
        claimed: true,
        record: { runId: 'run_1', ownerId: 'owner_2', leaseUntil: 1_200 },
      });
      expect(await store.idempotency.complete(claim, answer)).toBe(false);
      expect(await store.idempotency.complete({ ...heir, runId: 'run_1' }, answer)).toBe(true);
    });

    it('lets an owner claim its own run again', async () => {
      const claim = newClaim();
      await store.idempotency.claim(claim);
      expect((await store.idempotency.claim(claim)).claimed).toBe(true);
    });

    it('renews the leases of what its owner is running', async () => {
      const claim = newClaim({ ownerId: 'owner_renewing' });
      await store.idempotency.claim(claim);
      await store.idempotency.renew('owner_renewing', 2_000);
      expect((await store.idempotency.claim({ ...claim, ownerId: 'owner_2', now: 1_999 })).claimed).toBe(false);
      expect((await store.idempotency.claim({ ...claim, ownerId: 'owner_2', now: 2_000 })).claimed).toBe(true);
    });

    it('ends a lease early, for one run or for all owners but one', async () => {
      const [released, others, own] = [
        newClaim(),
        newClaim({ ownerId: 'owner_dead' }),
        newClaim({ ownerId: 'owner_alive' }),
      ];
      for (const claim of [released, others, own]) await store.idempotency.claim(claim);
      await store.idempotency.release(released);
      await store.idempotency.releaseOthers('owner_alive');
      const stranger = { ownerId: 'owner_2', now: 1_001 };
      expect((await store.idempotency.claim({ ...released, ...stranger })).claimed).toBe(true);
      expect((await store.idempotency.claim({ ...others, ...stranger })).claimed).toBe(true);
      expect((await store.idempotency.claim({ ...own, ...stranger })).claimed).toBe(false);
    });

    it('forgets an abandoned run, but only for its owner', async () => {
      const claim = newClaim();
      await store.idempotency.claim(claim);
      await store.idempotency.abandon({ ...claim, ownerId: 'owner_2' });
      const second = { ...claim, runId: 'run_2', ownerId: 'owner_2', bodyHash: 'other' };
      expect((await store.idempotency.claim(second)).claimed).toBe(false);
      await store.idempotency.abandon(claim);
      expect(await store.idempotency.claim(second)).toMatchObject({ claimed: true, record: { runId: 'run_2' } });
    });

    it('starts anew when a record has expired, even with another body', async () => {
      const claim = newClaim();
      await store.idempotency.claim(claim);
      await store.idempotency.complete(claim, answer);
      const later = { ...claim, runId: 'run_2', bodyHash: 'other', now: 9_000, leaseUntil: 9_100, expiresAt: 18_000 };
      expect(await store.idempotency.claim(later)).toMatchObject({
        claimed: true,
        record: { runId: 'run_2', bodyHash: 'other', answer: null },
        replacedRunId: 'run_1',
      });
    });

    it('removes expired records, a bounded number at a time', async () => {
      const claims = [1, 2, 3].map(() => newClaim({ expiresAt: 500, now: 100, leaseUntil: 200 }));
      for (const claim of claims) await store.idempotency.claim(claim);
      const first = await store.idempotency.deleteExpired(500, 2);
      const second = await store.idempotency.deleteExpired(500, 2);
      expect([...first, ...second].map(({ id }) => id).sort()).toEqual(claims.map(({ id }) => id).sort());
      expect(first).toHaveLength(2);
      expect(await store.idempotency.deleteExpired(500, 2)).toEqual([]);
    });
  });
}
