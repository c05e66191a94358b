import { setTimeout as sleep } from 'node:timers/promises';
import type { shareOf } from './work.ts';

/** While several accounts are active, each has so much of a turn of the event loop, and one piece of work at least. Less for less weight. */
const SHARE_MS = 0.125;
/** For so long after an account has done something, it may do more. */
const ACTIVE_MS = 1_000;
/** After a piece that could not be cut, an account takes the next one after so many times as long: these have a quarter of the event loop at most. */
const RESTS = 3;

/** What an account is called here, and its weight. */
export type TurnShare = ReturnType<typeof shareOf>;

/** What an account has done in this turn, and what it has left for later ones. */
interface Turn {
  weight: number;
  usedMs: number;
  /** How much of its next turn has come: one of half the weight of another gets every second one. */
  due: number;
  waiting: (() => void)[];
}

/**
 * Shares the turns of the event loop among accounts: what they send, and what is sent to them, is handled in pieces. An account that has had
 * its share of a turn goes on in the next one, or a later one if others that use the event loop have more weight, so that others wait for a
 * short piece of work only. While one account is active, it never waits, and nothing is measured.
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
  run<Result>(share: TurnShare, piece: () => Result): Result | Promise<Awaited<Result>> {
    const turn = this.#turnOf(share);
    if (turn !== undefined) return turn.then(() => this.#timed(share, piece)) as Promise<Awaited<Result>>;
    return this.#areSeveral() ? this.#timed(share, piece) : piece();
  }

  /** Takes the whole share of a turn, for a piece of work that is done elsewhere. Undefined: it may begin at once. */
  take(share: TurnShare): Promise<void> | undefined {
    if (this.#rests.has(share.name)) return this.#takeAfterRest(share);
    const turn = this.#turnOf(share);
    if (turn !== undefined) {
      return turn.then(() => (this.#rests.has(share.name) ? this.#takeAfterRest(share) : this.#count(share, SHARE_MS)));
    }
    if (this.#areSeveral()) this.#count(share, SHARE_MS);
    return undefined;
  }

  /** After a piece of work that could not be cut, `take` waits. What is given to `run` does not. */
  rest({ name }: TurnShare, ms: number): void {
    if (!this.#areSeveral()) return;
    const before = this.#rests.get(name) ?? Promise.resolve();
    const rest = before.then(() => sleep(RESTS * ms));
    this.#rests.set(name, rest);
    void rest.then(() => {
      if (this.#rests.get(name) === rest) this.#rests.delete(name);
    });
  }

  async #takeAfterRest(share: TurnShare): Promise<void> {
    await this.#rests.get(share.name);
    await this.take(share);
  }

  /** Undefined: this one. */
  #turnOf({ name }: TurnShare): Promise<void> | undefined {
    if (name !== this.#latest) {
      this.#latest = name;
      this.#changedAt = this.#now();
    }
    const turn = this.#turns.get(name);
    if (turn === undefined || (turn.usedMs < SHARE_MS && turn.waiting.length === 0)) return undefined;
    return new Promise((resolve) => turn.waiting.push(resolve));
  }

  #areSeveral(): boolean {
    return this.#now() - this.#changedAt < ACTIVE_MS;
  }

  #timed<Result>(share: TurnShare, piece: () => Result): Result {
    const began = this.#now();
    try {
      return piece();
    } finally {
      this.#count(share, this.#now() - began);
    }
  }

  #count({ name, weight }: TurnShare, ms: number): void {
    const turn = this.#turns.get(name);
    if (turn === undefined) this.#turns.set(name, { weight, usedMs: ms, due: 0, waiting: [] });
    else {
      turn.weight = weight;
      turn.usedMs += ms;
    }
    this.#awaitTurn();
  }

  #awaitTurn(): void {
    if (this.#isTurnAwaited) return;
    this.#isTurnAwaited = true;
    setImmediate(() => this.#begin());
  }

  #begin(): void {
    this.#isTurnAwaited = false;
    let mostWeight = 0;
    for (const { weight } of this.#turns.values()) mostWeight = Math.max(mostWeight, weight);
    for (const [name, turn] of this.#turns) {
      turn.due += turn.weight / mostWeight;
      if (turn.due >= 1) {
        turn.due -= 1;
        turn.usedMs = 0;
        if (turn.waiting.length === 0) {
          this.#turns.delete(name);
          continue;
        }
        void this.#resume(turn);
      }
      this.#awaitTurn();
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
