import type { ResponseRepository } from '@baobab/core/ports/responses.ts';
import { systemClock } from '@baobab/core/runtime/clock.ts';
import { expect, it } from 'vitest';
import { createAccountTurns } from '../../admission/account-turns.ts';
import { createResponses } from './responses.ts';

it('looks up all responses that a request refers to at once, however many are missing', async () => {
  let asked = 0;
  const repository: Partial<ResponseRepository> = {
    async getAll(_accountId, ids) {
      asked += 1;
      return { missing: ids[0] ?? '' };
    },
  };
  const service = createResponses({
    responses: repository as ResponseRepository,
    conversations: { expiryOf: () => 0 },
    settings: { retentionDays: 1, quotaBytes: 0, quotaResponses: 0, maxActivePerAccount: 1, maxHistoryBytes: 1 },
    reads: createAccountTurns({ atOnce: 1 }),
    clock: systemClock,
    onChange() {},
  });
  const ids = Array.from({ length: 60_000 }, (_, index) => `resp_${index}`);
  expect(await service.findAll('acct_1', ids)).toEqual({ missing: 'resp_0' });
  expect(asked).toBe(1);
});
