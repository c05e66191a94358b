import type { EngineMetrics } from '../host/metrics.ts';

const WINDOW_SECONDS = 10;

export interface TokenRates {
  /** Tokens a second of a model, by `slug@version`: those of the requests that ended in the last ten seconds. */
  of(model: string): { input: number; output: number };
  /** For requests that an upstream ran: only local engines report their tokens. */
  add(model: string, used: { input: number; output: number }): void;
}

interface Second {
  second: number;
  input: number;
  output: number;
}

/** Passes everything on and counts the tokens of each model. */
export function withTokenRates(
  metrics: EngineMetrics,
  now: () => number,
): { metrics: EngineMetrics; rates: TokenRates } {
  const models = new Map<string, Second[]>();
  const secondNow = () => Math.floor(now() / 1000);

  function secondsOf(model: string): Second[] {
    const oldest = secondNow() - WINDOW_SECONDS;
    const seconds = (models.get(model) ?? []).filter(({ second }) => second > oldest);
    models.set(model, seconds);
    return seconds;
  }

  const add: TokenRates['add'] = (model, used) => {
    const second = secondNow();
    let last = models.get(model)?.at(-1);
    if (last?.second !== second) {
      last = { second, input: 0, output: 0 };
      secondsOf(model).push(last);
    }
    last.input += used.input;
    last.output += used.output;
  };

  return {
    metrics: {
      ...metrics,
      tokens(model, used) {
        metrics.tokens(model, used);
        add(model, used);
      },
    },
    rates: {
      add,
      of(model) {
        if (!models.has(model)) return { input: 0, output: 0 };
        const sum = { input: 0, output: 0 };
        for (const { input, output } of secondsOf(model)) {
          sum.input += input;
          sum.output += output;
        }
        return { input: sum.input / WINDOW_SECONDS, output: sum.output / WINDOW_SECONDS };
      },
    },
  };
}
