import { existsSync, writeFileSync } from 'node:fs';

/** Debian's package `faketime`. */
const LIBRARY = [
  process.env.BAOBAB_TEST_FAKETIME ?? '',
  ...['x86_64', 'aarch64'].map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`),
].find((path) => existsSync(path));

/** Why no clock can be wrong; undefined if one can. */
export const clockMissing: string | undefined =
  LIBRARY === undefined
    ? 'there is no libfaketime (Debian: apt install faketime), and BAOBAB_TEST_FAKETIME does not name one'
    : undefined;

/** The clock of one process, which can be wrong. */
export interface Clock {
  /** For the process. */
  readonly env: Record<string, string>;
  /** By this many seconds, from about a second from now on. */
  shift(seconds: number): void;
}

export function createClock(file: string): Clock {
  const shift = (seconds: number) => writeFileSync(file, `+${seconds}\n`);
  shift(0);
  return {
    shift,
    env: {
      LD_PRELOAD: LIBRARY ?? '',
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DISABLE_SHM: '1',
      // Timeouts go on as they did.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    },
  };
}
