import { type Dialect, dialectOf, type Principal } from '@baobab/core/domain/principal.ts';

interface DialectRules {
  /** Of an error. */
  status(status: number): number;
  /** Of a file. */
  time(ms: number): string | number;
}

/** All that a dialect changes. Some typed clients accept nothing else. */
const RULES: Readonly<Record<Dialect, DialectRules>> = {
  specification: {
    status: (status) => status,
    time: (ms) => new Date(ms).toISOString(),
  },
  openai: {
    status: (status) => (status === 422 ? 400 : status),
    time: (ms) => Math.floor(ms / 1000),
  },
};

/** Those of the caller, once it is known. */
export const dialectRules = (caller: Principal | undefined): DialectRules =>
  RULES[caller === undefined ? 'specification' : dialectOf(caller)];
