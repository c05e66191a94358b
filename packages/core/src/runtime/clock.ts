import type { Clock } from '../ports/clock.ts';

export const systemClock: Clock = { now: () => Date.now() };

/** Monotonic, from the time of the start: pauses and ages stay right when the system's clock is corrected. */
export const steadyClock: Clock = { now: () => Math.floor(performance.timeOrigin + performance.now()) };
