import type { Clock } from '@baobab/core/ports/clock.ts';
import { steadyClock, systemClock } from '@baobab/core/runtime/clock.ts';

/** Beyond this an operator should set the clock of the machine. */
const MAX_SKEW_MS = 5_000;

/** The time of the store, which all its servers share: whether a lease has ended does not depend on the clocks of their machines. */
export interface StoreClock extends Clock {
  /** Asks the store. */
  sync(): Promise<void>;
  /** False: since the store was asked, this machine slept or its clock was set, so what it has leased may have ended. */
  isSure(): boolean;
  /** By how much the clock of this machine is ahead. */
  machineAheadMs(): number;
  /** What an operator should mend. */
  problem(): string | undefined;
}

export interface StoreClockDependencies {
  /** Of the store, in milliseconds since 1970. */
  time(): Promise<number>;
  /** For tests: the clock of the machine, and one that only moves forward. */
  machine?: Clock;
  steady?: Clock;
}

/** Asks the store for its time, and counts from there. */
export async function openStoreClock(dependencies: StoreClockDependencies): Promise<StoreClock> {
  const { time, machine = systemClock, steady = steadyClock } = dependencies;
  /** Of the store to the steady clock. */
  let offsetMs: number | undefined;
  /** Of the machine to the steady clock, when the store was asked. */
  let machineOffsetMs = 0;

  async function sync(): Promise<void> {
    const sentAt = steady.now();
    const now = await time();
    // It was read at any time between the question and the answer.
    const [least, most] = [now - steady.now(), now - sentAt];
    const before = offsetMs ?? Math.round((least + most) / 2);
    offsetMs = Math.min(Math.max(before, least), most);
    machineOffsetMs = machine.now() - steady.now();
  }
  await sync();

  const now = () => steady.now() + (offsetMs ?? 0);
  const machineAheadMs = () => machine.now() - now();
  return {
    now,
    sync,
    machineAheadMs,
    isSure: () => Math.abs(machine.now() - steady.now() - machineOffsetMs) <= MAX_SKEW_MS,
    problem() {
      const aheadMs = machineAheadMs();
      if (Math.abs(aheadMs) <= MAX_SKEW_MS) return undefined;
      const seconds = Math.round(Math.abs(aheadMs) / 1_000);
      return `the clock of this machine is ${seconds} s ${aheadMs < 0 ? 'behind' : 'ahead of'} that of the database, whose time is used`;
    },
  };
}

/** Of a store on this machine, which has its clock. */
export const machineClock: StoreClock = {
  now: systemClock.now,
  async sync() {},
  isSure: () => true,
  machineAheadMs: () => 0,
  problem: () => undefined,
};
