import { expect, it } from 'vitest';
import { account, apiKey } from '../../test/contracts/key-fixtures.ts';
import { resolveLimits } from './rate-limits.ts';

const usual = { rpm: 600, tpm: 200_000 };
const defaults = {
  chat: usual,
  audio: usual,
  embedding: { rpm: 1_200, tpm: 2_000_000 },
  rerank: usual,
  concurrency: 0,
};
const plain = { account: account(), key: apiKey({ rpm: null, tpm: null, concurrency: null }) };

it('lets the key win over the account, the account over the model, the model over the default', () => {
  const model = { rpm: 3 };
  const ofAccount = { ...plain, account: account({ rpm: 2, tpm: 20 }) };
  const ofKey = { ...ofAccount, key: apiKey({ rpm: 1, tpm: null, concurrency: 4 }) };
  expect(resolveLimits(plain, 'embedding', { defaults })).toEqual({ rpm: 1_200, tpm: 2_000_000, concurrency: null });
  expect(resolveLimits(plain, 'chat', { defaults, model })).toEqual({ rpm: 3, tpm: 200_000, concurrency: null });
  expect(resolveLimits(ofAccount, 'chat', { defaults, model })).toEqual({ rpm: 2, tpm: 20, concurrency: null });
  expect(resolveLimits(ofKey, 'chat', { defaults, model })).toEqual({ rpm: 1, tpm: 20, concurrency: 4 });
});
