import { median, percentile, processorSeconds, stolenMs } from '../measure.ts';
import type { Load } from './load.ts';
import type { Side } from './sides.ts';

/** One measurement of one side. Times in milliseconds. */
export interface Turn {
  perSecond: number;
  p50: number;
  p99: number;
  /** Processor time of the gateway for one request. */
  processorMs: number;
  /** Share of one core that the host of this machine took meanwhile. */
  stolen: number;
}

export interface Turns {
  /** Measures every side once in each round. */
  run(options: { sides: readonly Side[]; connections: number; rounds: number; seconds: number }): Promise<Results>;
  /** Other sides do not run meanwhile. */
  alone<T>(side: Side, others: readonly Side[], work: () => Promise<T>): Promise<T>;
}

export class Results {
  readonly #turns = new Map<string, Turn[]>();

  add(side: string, turn: Turn): void {
    this.#turns.set(side, [...(this.#turns.get(side) ?? []), turn]);
  }

  has(side: string): boolean {
    return this.#turns.has(side);
  }

  of(side: string, what: keyof Turn): number {
    return median((this.#turns.get(side) ?? []).map((turn) => turn[what]));
  }

  /** Median over the rounds of one side's figure divided by the other's in the same round. */
  ratio(what: keyof Turn, left: string, right: string): number {
    return median(this.#pairs(what, left, right).map(([one, other]) => one / other));
  }

  difference(what: keyof Turn, left: string, right: string): number {
    return median(this.#pairs(what, left, right).map(([one, other]) => one - other));
  }

  #pairs(what: keyof Turn, left: string, right: string): [number, number][] {
    const others = this.#turns.get(right) ?? [];
    return (this.#turns.get(left) ?? []).map((turn, round) => [turn[what], others[round]?.[what] ?? Number.NaN]);
  }

  print(title: string): void {
    console.log(`\n${title}, medians of ${this.#turns.values().next().value?.length ?? 0} rounds`);
    console.table(
      Object.fromEntries(
        [...this.#turns].map(([side, turns]) => [
          side,
          {
            'requests/s': Math.round(this.of(side, 'perSecond')),
            'p50 ms': Number(this.of(side, 'p50').toFixed(2)),
            'p99 ms': Number(this.of(side, 'p99').toFixed(2)),
            'processor ms': Number(this.of(side, 'processorMs').toFixed(3)),
            'host took': `${(Math.max(...turns.map(({ stolen }) => stolen)) * 100).toFixed(0)} %`,
            'each round, requests/s': turns.map(({ perSecond }) => perSecond.toFixed(0)).join(' '),
            p99: turns.map(({ p99 }) => p99.toFixed(1)).join(' '),
          },
        ]),
      ),
    );
  }
}

export function createTurns(load: Load): Turns {
  async function alone<T>(side: Side, others: readonly Side[], work: () => Promise<T>): Promise<T> {
    const paused = others.filter((other) => other !== side);
    for (const other of paused) other.pause(true);
    try {
      return await work();
    } finally {
      for (const other of paused) other.pause(false);
    }
  }

  async function turn(side: Side, job: { connections: number; seconds: number }): Promise<Turn> {
    const { url, headers, body } = side;
    const [processor, stolen, startedAt] = [processorSeconds(side.pids()), stolenMs(), performance.now()];
    const { perSecond, latencies } = await load.closed({ url, headers, body, ...job });
    const elapsedMs = performance.now() - startedAt;
    return {
      perSecond,
      p50: percentile(latencies, 0.5),
      p99: percentile(latencies, 0.99),
      processorMs: ((processorSeconds(side.pids()) - processor) * 1000) / latencies.length,
      stolen: (stolenMs() - stolen) / elapsedMs,
    };
  }

  return {
    alone,
    async run({ sides, rounds, ...job }) {
      const results = new Results();
      for (let round = 0; round < rounds; round += 1) {
        // The order alternates, so that no side always follows the same other one.
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
          results.add(side.name, await alone(side, sides, () => turn(side, job)));
        }
      }
      return results;
    },
  };
}
