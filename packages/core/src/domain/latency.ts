/** Each bin is 6% wider than the one before, so a percentile is at most 3% off. */
const STEP = Math.log(1.06);

/** Requests that take an hour are in bin 260. */
export const latencyBin = (ms: number): number => (ms <= 1 ? 0 : Math.round(Math.log(ms) / STEP));

const binMs = (bin: number): number => Math.exp(bin * STEP);

export interface Percentiles {
  p50: number;
  p90: number;
  p99: number;
}

/** From the number of requests in each bin, without digits that say nothing. Null without requests. */
export function percentilesOf(counts: ReadonlyMap<number, number>): Percentiles | null {
  const bins = [...counts].sort(([one], [other]) => one - other);
  const total = bins.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return null;
  const at = (share: number): number => {
    let left = Math.ceil(total * share);
    for (const [bin, count] of bins) {
      left -= count;
      if (left <= 0) return Number(binMs(bin).toPrecision(3));
    }
    return 0;
  };
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}
