import { Share } from '@baobab/core/runtime/shares.ts';
import { type Sharing, shareOf } from '@baobab/core/runtime/work.ts';

/** Runs one piece of work at a time: the next is one of the account that had the least of it, for its weight. */
export class Turns {
  readonly #accounts = new Share('work').members;
  readonly #waiting = new Map<Share, (() => void)[]>();
  #isBusy = false;

  /** `work`: what the piece takes, in any unit. */
  async run<Result>(caller: Sharing, work: number, piece: () => Promise<Result>): Promise<Result> {
    const { name, weight } = shareOf(caller);
    const account = this.#accounts.get(name, weight);
    if (this.#isBusy) await this.#turnOf(account);
    this.#isBusy = true;
    account.serve(work);
    try {
      return await piece();
    } finally {
      this.#begin();
    }
  }

  #turnOf(account: Share): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(account);
      if (waiting === undefined) this.#waiting.set(account, [resolve]);
      else waiting.push(resolve);
      account.changeWaiting(1);
    });
  }

  #begin(): void {
    const account = this.#accounts.next();
    if (account === undefined) {
      this.#isBusy = false;
      return;
    }
    const waiting = this.#waiting.get(account) ?? [];
    const begin = waiting.shift();
    if (waiting.length === 0) this.#waiting.delete(account);
    account.changeWaiting(-1);
    begin?.();
  }
}
