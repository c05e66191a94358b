import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Session, SessionRepository } from '../../packages/core/src/ports/sessions.ts';

export interface SessionsUnderTest {
  sessions: SessionRepository;
  close(): Promise<void>;
}

const session = (hash: string, changes: Partial<Session> = {}): Session => ({
  hash,
  keyId: 'key_1',
  createdAt: 1_000,
  expiresAt: 5_000,
  ...changes,
});

/** Every store of sessions behaves like this. */
export function sessionsContract(name: string, open: () => Promise<SessionsUnderTest>): void {
  describe(`sessions: ${name}`, () => {
    let store: SessionsUnderTest;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    it('finds, renews and removes a session', async () => {
      await store.sessions.create(session('one'), { maxPerKey: 5 });
      expect(await store.sessions.find('one')).toEqual(session('one'));
      await store.sessions.renew('one', 9_000);
      expect(await store.sessions.find('one')).toEqual(session('one', { expiresAt: 9_000 }));
      await store.sessions.remove('one');
      await store.sessions.remove('one');
      expect(await store.sessions.find('one')).toBeUndefined();
    });

    it('keeps the newest sessions of each key', async () => {
      await store.sessions.create(session('other', { keyId: 'key_2', createdAt: 1 }), { maxPerKey: 2 });
      for (const [index, hash] of ['a', 'b', 'c'].entries()) {
        await store.sessions.create(session(hash, { createdAt: 2_000 + index }), { maxPerKey: 2 });
      }
      const found = await Promise.all(['a', 'b', 'c', 'other'].map((hash) => store.sessions.find(hash)));
      expect(found.map((each) => each?.hash)).toEqual([undefined, 'b', 'c', 'other']);
    });

    it('removes those that have expired', async () => {
      await store.sessions.create(session('late', { keyId: 'key_3', expiresAt: 5_001 }), { maxPerKey: 5 });
      await store.sessions.create(session('due', { keyId: 'key_3', expiresAt: 5_000 }), { maxPerKey: 5 });
      await store.sessions.removeExpired(5_000);
      expect(await store.sessions.find('late')).toBeDefined();
      expect(await store.sessions.find('due')).toBeUndefined();
    });
  });
}
