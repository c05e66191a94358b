import { DAY_MS } from '@baobab/core/domain/time/durations.ts';
import type { RequestText, RequestTexts } from '@baobab/core/ports/request-texts.ts';
import { expect, it } from 'vitest';
import { createRequestTexts, cutText } from './request-texts.ts';

const text = (requestId: string, accountId: string, time: number): RequestText => ({
  requestId,
  accountId,
  time,
  prompt: 'p',
  answer: 'a',
  truncated: false,
});

function memoryTexts(): RequestTexts & { stored: RequestText[] } {
  let stored: RequestText[] = [];
  const remove = async (gone: (each: RequestText) => boolean) => {
    const before = stored.length;
    stored = stored.filter((each) => !gone(each));
    return before - stored.length;
  };
  return {
    get stored() {
      return stored;
    },
    add: async (each) => stored.push(each) > 0,
    get: async (id) => stored.find(({ requestId }) => requestId === id),
    removeOlder: (than) => remove(({ time }) => time < than),
    removeOfAccount: (id) => remove(({ accountId }) => accountId === id),
    accountsNotKeeping: async () => [
      ...new Set(stored.map(({ accountId }) => accountId).filter((id) => id !== 'keeping')),
    ],
  };
}

it('removes old texts and those of accounts that no longer keep any', async () => {
  const texts = memoryTexts();
  const service = createRequestTexts({
    texts,
    settings: { textRetentionDays: 7, textMaxBytes: 100, textQuotaBytes: 0 },
    clock: { now: () => 10 * DAY_MS },
    onError(error) {
      throw error;
    },
  });
  for (const [index, account] of ['keeping', 'stopped', 'gone'].entries())
    service.keep(text(`${index}`, account, 9 * DAY_MS));
  service.keep(text('old', 'keeping', 2 * DAY_MS));
  await service.flush();
  expect(texts.stored).toHaveLength(4);
  await service.sweep();
  expect(texts.stored.map(({ requestId }) => requestId)).toEqual(['0']);
  expect(await service.eraseAccount('keeping')).toBe(1);
});

it('cuts between characters', () => {
  expect(cutText('aä€😀', 10)).toBe('aä€😀');
  expect(cutText('aä€😀', 9)).toBe('aä€');
  expect(cutText('aä€😀', 5)).toBe('aä');
});
