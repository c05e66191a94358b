/** The package has no types. These cover what the benchmarks use. */
declare module 'autocannon' {
  interface Options {
    url: string;
    method: string;
    headers: Record<string, string>;
    body: string;
    connections: number;
    /** In seconds. One of the two. */
    duration?: number;
    /** Requests. */
    amount?: number;
    overallRate?: number;
  }
  interface Result {
    requests: { average: number; total: number };
    latency: { p50: number; p99: number; average: number };
    non2xx: number;
  }
  export default function autocannon(options: Options): Promise<Result>;
}
