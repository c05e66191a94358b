/** Decides after each crash: start again after a pause, or give up for a while. Pure: times are passed in. */

export interface RestartSettings {
  /** Give up after this many crashes … */
  crashLimit: number;
  /** … within this time without one success between them. */
  windowMs: number;
  firstDelayMs: number;
  maxDelayMs: number;
  /** How long giving up lasts; doubled each time the next attempt fails too. */
  cooldownMs: number;
  maxCooldownMs: number;
}

export const RESTARTS: RestartSettings = {
  crashLimit: 3,
  windowMs: 60_000,
  firstDelayMs: 100,
  maxDelayMs: 10_000,
  cooldownMs: 30_000,
  maxCooldownMs: 600_000,
};

export type Verdict =
  | { action: 'restart'; delayMs: number }
  | { action: 'give-up'; cooldownMs: number; crashes: number };

export interface RestartPolicy {
  /** `inARow`: crashes of this one process without an answer between them. */
  crashed(now: number, inARow: number): Verdict;
  succeeded(): void;
}

export function createRestartPolicy(settings: RestartSettings): RestartPolicy {
  let crashes: number[] = [];
  let givenUp = 0;

  return {
    crashed(now, inARow) {
      crashes = [...crashes.filter((at) => now - at < settings.windowMs), now];
      // After giving up once, the first crash before a success gives up again.
      const limit = givenUp > 0 ? 1 : settings.crashLimit;
      if (crashes.length < limit) {
        return {
          action: 'restart',
          delayMs: Math.min(settings.firstDelayMs * 2 ** (inARow - 1), settings.maxDelayMs),
        };
      }
      const cooldownMs = Math.min(settings.cooldownMs * 2 ** givenUp, settings.maxCooldownMs);
      const count = crashes.length;
      givenUp += 1;
      crashes = [];
      return { action: 'give-up', cooldownMs, crashes: count };
    },
    succeeded() {
      crashes = [];
      givenUp = 0;
    },
  };
}
