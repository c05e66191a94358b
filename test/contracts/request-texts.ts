import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AccountRepository } from '../../packages/core/src/ports/repositories.ts';
import type { RequestText, RequestTexts } from '../../packages/core/src/ports/request-texts.ts';
import { someEntry } from '../fixtures/audit-entries.ts';
import { account } from './key-fixtures.ts';

export interface RequestTextsUnderTest {
  requestTexts: RequestTexts;
  accounts: AccountRepository;
  close(): Promise<void>;
}

const NO_LIMIT = { items: 0, bytes: 0 };

const text = (requestId: string, changes: Partial<RequestText> = {}): RequestText => ({
  requestId,
  accountId: 'acct_1',
  time: 1_000,
  prompt: 'Hello, Äh!',
  answer: null,
  truncated: false,
  ...changes,
});

/** Every store of prompts and answers behaves like this. */
export function requestTextsContract(name: string, open: () => Promise<RequestTextsUnderTest>): void {
  describe(`request texts: ${name}`, () => {
    let store: RequestTextsUnderTest;
    let texts: RequestTexts;
    beforeAll(async () => {
      store = await open();
      texts = store.requestTexts;
      for (const id of ['acct_1', 'acct_full']) await store.accounts.create(account({ id, name: id }), someEntry());
    });
    afterAll(() => store.close());

    it('gives back a text to its account only, and adds none twice', async () => {
      const first = text('req_1', { answer: 'Hi', truncated: true });
      expect(await texts.add(first, NO_LIMIT)).toBe(true);
      expect(await texts.add(text('req_1', { answer: 'other' }), NO_LIMIT)).toBe(false);
      expect(await texts.get('req_1', 'acct_1')).toEqual(first);
      expect(await texts.get('req_1', 'acct_2')).toBeUndefined();
      expect(await texts.get('req_0', 'acct_1')).toBeUndefined();
    });

    it('stores no more than the quota, also after a refusal, and again after a removal', async () => {
      const quota = { items: 0, bytes: 10 };
      const of = (id: string, prompt: string) => text(id, { accountId: 'acct_full', prompt, time: 5_000 });
      expect(await texts.add(of('req_a', '12345678901'), quota)).toBe(false);
      expect(await texts.add(of('req_b', '123456'), quota)).toBe(true);
      expect(await texts.add(of('req_c', '12345'), quota)).toBe(false);
      expect(await texts.add(of('req_d', '1234'), quota)).toBe(true);
      expect(await texts.removeOfAccount('acct_full')).toBe(2);
      expect(await texts.removeOfAccount('acct_full')).toBe(0);
      expect(await texts.add(of('req_e', '1234567890'), quota)).toBe(true);
    });

    it('removes what is older', async () => {
      await texts.add(text('req_old', { time: 10 }), NO_LIMIT);
      expect(await texts.removeOlder(1_000)).toBe(1);
      expect(await texts.get('req_old', 'acct_1')).toBeUndefined();
      expect(await texts.get('req_1', 'acct_1')).toBeDefined();
      await store.accounts.update('acct_1', { storePrompts: true }, someEntry);
      expect(await texts.accountsNotKeeping()).toEqual(['acct_full']);
    });
  });
}
