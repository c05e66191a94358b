import { expect, it } from 'vitest';
import { REPORTS_AT_ONCE, ReportTurns } from './report-turns.ts';

it('leaves a turn to others, however much one account asks for', async () => {
  const turns = new ReportTurns();
  const running: string[] = [];
  const begin = (accountId: string) => {
    const done = Promise.withResolvers<void>();
    const report = turns.begin({ accountId })(async () => {
      running.push(accountId);
      await done.promise;
    });
    return { report, end: done.resolve };
  };
  const greedy = Array.from({ length: 10 }, () => begin('greedy'));
  expect(running).toHaveLength(REPORTS_AT_ONCE - 1);
  const other = begin('other');
  expect(running).toHaveLength(REPORTS_AT_ONCE);
  expect(running.at(-1)).toBe('other');
  for (const { end } of [...greedy, other]) end();
  await Promise.all([...greedy, other].map(({ report }) => report));
  expect(running).toHaveLength(11);
});
