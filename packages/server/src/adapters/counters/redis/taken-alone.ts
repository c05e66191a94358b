import type { RateBucket, RateDemand } from '@baobab/core/ports/counters.ts';

const PARTS = 60_000;

/** What this process took from buckets that Redis has not counted yet. */
export class TakenAlone {
  readonly #taken = new Map<string, { perMinute: number; amount: number }>();

  /** A negative amount gives back. */
  take(buckets: RateDemand['buckets'], amount: number): void {
    if (amount === 0) return;
    for (const { id, perMinute } of buckets) {
      this.#taken.set(id, { perMinute, amount: (this.#taken.get(id)?.amount ?? 0) + amount });
    }
  }

  clear(): void {
    this.#taken.clear();
  }

  /** The changes of levels that Redis has to make. Forgets them. */
  drain(): (RateBucket & { level: number })[] {
    const changes = [...this.#taken].map(([id, { perMinute, amount }]) => ({ id, perMinute, level: -amount * PARTS }));
    this.clear();
    return changes;
  }
}
