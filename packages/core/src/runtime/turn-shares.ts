import { setTimeout as sleep } from 'node:timers/promises';

/** While several accounts are active, each has so much of a turn of the event loop, and one piece of work at least. */
const SHARE_MS = 0.125;
/** For so long after an account has done something, it may do more. */
const ACTIVE_MS = 1_000;
/** After a piece that could not be cut, an account takes the next one after so many times as long: these have a quarter of the event loop at most. */
const RESTS = 3;

/** What an account has done in this turn, and what it has left for later ones. */
interface Turn {
  usedMs: number;
  waiting: (() => void)[];
}

/**
 * Shares the turns of the event loop among accounts: what they send, and what is sent to them, is handled in pieces. An account that has had
 * its share of a turn goes on in the next one, so that others wait for a short piece of work only. While one account is active, it never
 * waits, and nothing is measured.
 */
export class TurnShares {
  readonly #now: () => number;
  readonly #turns = new Map<string, Turn>();
  readonly #rests = new Map<string, Promise<void>>();
  #latest = '';
  #changedAt = Number.NEGATIVE_INFINITY;
  #isTurnAwaited = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Does a piece of work, now or in a later turn. */
  run<Result>(accountId: string, piece: () => Result): Result | Promise<Awaited<Result>> {
    const turn = this.#turnOf(accountId);
    if (turn !== undefined) return turn.then(() => this.#timed(accountId, piece)) as Promise<Awaited<Result>>;
    return this.#areSeveral() ? this.#timed(accountId, piece) : piece();
  }

  /** Takes the whole share of a turn, for a piece of work that is done elsewhere. Undefined: it may begin at once. */
  take(accountId: string): Promise<void> | undefined {
    if (this.#rests.has(accountId)) return this.#takeAfterRest(accountId);
    const turn = this.#turnOf(accountId);
    if (turn !== undefined) {
      return turn.then(() =>
        this.#rests.has(accountId) ? this.#takeAfterRest(accountId) : this.#count(accountId, SHARE_MS),
      );
    }
    if (this.#areSeveral()) this.#count(accountId, SHARE_MS);
    return undefined;
  }

  /** After a piece of work that could not be cut, `take` waits. What is given to `run` does not. */
  rest(accountId: string, ms: number): void {
    if (!this.#areSeveral()) return;
    const before = this.#rests.get(accountId) ?? Promise.resolve();
    const rest = before.then(() => sleep(RESTS * ms));
    this.#rests.set(accountId, rest);
    void rest.then(() => {
      if (this.#rests.get(accountId) === rest) this.#rests.delete(accountId);
    });
  }

  async #takeAfterRest(accountId: string): Promise<void> {
    await this.#rests.get(accountId);
    await this.take(accountId);
  }

  /** Undefined: this one. */
  #turnOf(accountId: string): Promise<void> | undefined {
    if (accountId !== this.#latest) {
      this.#latest = accountId;
      this.#changedAt = this.#now();
    }
    const turn = this.#turns.get(accountId);
    if (turn === undefined || (turn.usedMs < SHARE_MS && turn.waiting.length === 0)) return undefined;
    return new Promise((resolve) => turn.waiting.push(resolve));
  }

  #areSeveral(): boolean {
    return this.#now() - this.#changedAt < ACTIVE_MS;
  }

  #timed<Result>(accountId: string, piece: () => Result): Result {
    const began = this.#now();
    try {
      return piece();
    } finally {
      this.#count(accountId, this.#now() - began);
    }
  }

  #count(accountId: string, ms: number): void {
    const turn = this.#turns.get(accountId);
    if (turn !== undefined) turn.usedMs += ms;
    else this.#turns.set(accountId, { usedMs: ms, waiting: [] });
    this.#awaitTurn();
  }

  #awaitTurn(): void {
    if (this.#isTurnAwaited) return;
    this.#isTurnAwaited = true;
    setImmediate(() => this.#begin());
  }

  #begin(): void {
    this.#isTurnAwaited = false;
    for (const [accountId, turn] of this.#turns) {
      turn.usedMs = 0;
      if (turn.waiting.length === 0) this.#turns.delete(accountId);
      else {
        this.#awaitTurn();
        void this.#resume(turn);
      }
    }
  }

  async #resume(turn: Turn): Promise<void> {
    while (turn.usedMs < SHARE_MS && turn.waiting.length > 0) {
      turn.waiting.shift()?.();
      // It has done its piece, and that is counted, when this goes on.
      await undefined;
    }
  }
}

/** Those of this process. */
export const turnShares = new TurnShares();
