import type { Metric, Registry } from 'prom-client';

/** Upper bounds in seconds. */
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;

/** Latencies of one combination of labels. */
export class LatencySeries {
  /** The last one counts what is beyond all bounds. */
  readonly counts: number[] = [...BOUNDS.map(() => 0), 0];
  sum = 0;

  observe(seconds: number): void {
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] as number)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += seconds;
  }
}

type Labels = Readonly<Record<string, string>>;

/**
 * A histogram whose series are found once, not with every observation: prom-client builds and looks up a text of all labels each time,
 * which is measurable in small requests.
 */
export class LatencyHistogram {
  readonly name: string;
  readonly #help: string;
  readonly #known = new Map<string, { labels: Labels; latencies: LatencySeries }>();

  constructor({ name, help, registry }: { name: string; help: string; registry: Registry }) {
    this.name = name;
    this.#help = help;
    // The registry needs no more of a metric than its name and `get`.
    registry.registerMetric(this as unknown as Metric);
  }

  /** The same one for the same labels. */
  series(labels: Labels): LatencySeries {
    const id = JSON.stringify(labels);
    const found = this.#known.get(id);
    if (found !== undefined) return found.latencies;
    const latencies = new LatencySeries();
    this.#known.set(id, { labels, latencies });
    return latencies;
  }

  async get() {
    const values = [...this.#known.values()].flatMap(({ labels, latencies }) => this.#valuesOf(labels, latencies));
    return { name: this.name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
  }

  #valuesOf(labels: Labels, { counts, sum }: LatencySeries) {
    let count = 0;
    const buckets = counts.map((more, index) => {
      count += more;
      return { labels: { le: BOUNDS[index] ?? '+Inf', ...labels }, value: count, metricName: `${this.name}_bucket` };
    });
    if (count === 0) return [];
    return [
      ...buckets,
      { labels, value: sum, metricName: `${this.name}_sum` },
      { labels, value: count, metricName: `${this.name}_count` },
    ];
  }
}
