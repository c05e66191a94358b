import { expect, it } from 'vitest';
import { describeFindings } from './findings.ts';

it('counts findings by kind and shows the first five of each', () => {
  const unfinished = Array.from({ length: 7 }, (_, index) => `batch_a${index} of ${20 + index} lines is in_progress`);
  const refused = ['chat of plain was refused with 429 busy req_1', 'chat of plain was refused with 429 busy req_2'];
  expect(describeFindings([...refused, ...unfinished, 'concurrency: only 3 of 4 places are left'])).toEqual([
    'FINDING 7 × # of # lines is in_progress',
    ...unfinished.slice(0, 5).map((finding) => `  ${finding}`),
    '  and 2 more',
    'FINDING 2 × chat of plain was refused with # busy #',
    ...refused.map((finding) => `  ${finding}`),
    'FINDING concurrency: only 3 of 4 places are left',
  ]);
  expect(describeFindings([])).toEqual([]);
});
