/** For so long after a call of an account has come or ended, it may send more. */
const ACTIVE_MS = 1_000;

interface Caller {
  readonly accountId: string;
  readonly priority: string;
}

/** Knows whether several accounts have calls, so that none should wait for long work of another one. Priorities count as accounts. */
export class ActiveAccounts {
  readonly #now: () => number;
  /** How many calls, and when the last one came or ended; of the last while only. */
  readonly #known = new Map<string, { calls: number; lastAt: number }>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  begin(caller: Caller): void {
    this.#count(caller, 1);
  }

  /** Once for each call that has begun. */
  end(caller: Caller): void {
    this.#count(caller, -1);
  }

  areSeveral(): boolean {
    const since = this.#now() - ACTIVE_MS;
    for (const [name, { calls, lastAt }] of this.#known) if (calls === 0 && lastAt < since) this.#known.delete(name);
    return this.#known.size > 1;
  }

  #count({ accountId, priority }: Caller, change: 1 | -1): void {
    const name = `${priority} ${accountId}`;
    this.#known.set(name, { calls: (this.#known.get(name)?.calls ?? 0) + change, lastAt: this.#now() });
  }
}
