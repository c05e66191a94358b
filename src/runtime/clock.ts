import type { Clock } from '../ports/clock.ts';

export const systemClock: Clock = { now: () => Date.now() };

/** The time of the start and what has passed since. Nobody can set it, so pauses and ages stay right when the system's clock is corrected. */
export const steadyClock: Clock = { now: () => Math.floor(performance.timeOrigin + performance.now()) };
