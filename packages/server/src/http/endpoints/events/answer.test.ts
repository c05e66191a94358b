import type { Batch } from '@baobab/core/domain/batch.ts';
import { expect, it } from 'vitest';
import { eventText } from './answer.ts';

it('names the account of a batch, so that operators can tell them apart', () => {
  const batch = {
    id: 'batch_1',
    accountId: 'acct_1',
    status: 'in_progress',
    counts: { total: 3, completed: 1, failed: 0 },
  } as Batch;
  const text = eventText({ kind: 'batch', batch }, () => 0);
  const [, data = ''] = /^event: batch\ndata: (.*)\n\n$/.exec(text) ?? [];
  expect(JSON.parse(data)).toEqual({
    id: 'batch_1',
    account_id: 'acct_1',
    status: 'in_progress',
    request_counts: { total: 3, completed: 1, failed: 0 },
  });
});
