import { expect, it } from 'vitest';
import { type DecoderFinding, fuzzDecoders } from './decoders.ts';

const MEGABYTE = 1024 * 1024;

it('decoders refuse or decode damaged files, end, and cost the server nothing', async () => {
  const found: Omit<DecoderFinding, 'file'>[] = [];
  const { counts, grownBytes } = await fuzzDecoders({
    seed: 20_261_119,
    seconds: 0,
    roundsPerKind: 3,
    onFinding: async ({ kind, number, problem }) => {
      found.push({ kind, number, problem });
    },
  });
  expect(found).toEqual([]);
  expect(Object.keys(counts)).toHaveLength(11);
  expect(grownBytes).toBeLessThan(32 * MEGABYTE);
});
