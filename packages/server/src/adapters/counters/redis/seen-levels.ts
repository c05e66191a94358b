import type { RateBucket } from '@baobab/core/ports/counters.ts';

interface Seen {
  perMinute: number;
  level: number;
  at: number;
}

const PARTS = 60_000;
/** After this time without requests a bucket is full, unless it was in debt. */
const FORGET_MS = 60_000;

/** The levels of buckets as Redis last reported them, for when it is away. */
export class SeenLevels {
  #recent = new Map<string, Seen>();
  #older = new Map<string, Seen>();
  #startedAt = 0;

  note({ id, perMinute }: RateBucket, level: number, now: number): void {
    if (now - this.#startedAt >= FORGET_MS) {
      this.#older = this.#recent;
      this.#recent = new Map();
      this.#startedAt = now;
    }
    const known = this.#recent.get(id);
    if (known === undefined) this.#recent.set(id, { perMinute, level, at: now });
    else [known.perMinute, known.level, known.at] = [perMinute, level, now];
  }

  /** Undefined when no request of this process used it lately. */
  levelOf(id: string, now: number): number | undefined {
    const seen = this.#recent.get(id) ?? this.#older.get(id);
    return seen && refilled(seen, now);
  }

  *entries(now: number): Generator<RateBucket & { level: number }> {
    for (const [id, seen] of new Map([...this.#older, ...this.#recent])) {
      yield { id, perMinute: seen.perMinute, level: refilled(seen, now) };
    }
  }
}

const refilled = ({ perMinute, level, at }: Seen, now: number): number =>
  Math.min(perMinute * PARTS, level + Math.max(0, now - at) * perMinute);
