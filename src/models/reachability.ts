import type { Clock } from '../ports/clock.ts';
import type { RemoteSource } from './sources/source.ts';
import { WeightsError } from './weights-error.ts';

export interface Unreachable {
  reason: WeightsError;
  /** Milliseconds since 1970. */
  retryAtMs: number;
}

export interface Reachability {
  /** What the last attempt found; null: reachable or not known yet. */
  get(id: string): Unreachable | null;
  fail(id: string, reason: WeightsError): void;
  clear(id: string): void;
  /** Asks each distinct source once, a few at a time. Never rejects. */
  probe(sources: ReadonlyMap<string, RemoteSource>): Promise<void>;
}

const PROBE_TIMEOUT_MS = 3_000;
const PROBES_AT_A_TIME = 4;

export function createReachability({
  clock,
  retryUnavailableSeconds,
  signal,
}: {
  clock: Clock;
  retryUnavailableSeconds: number;
  signal: AbortSignal;
}): Reachability {
  const failures = new Map<string, Unreachable>();
  const running = new Map<string, Promise<void>>();

  function fail(id: string, reason: WeightsError): void {
    failures.set(id, { reason, retryAtMs: clock.now() + retryUnavailableSeconds * 1000 });
  }

  async function ask(ids: readonly string[], source: RemoteSource): Promise<void> {
    try {
      await source.probe(AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]));
      for (const id of ids) failures.delete(id);
    } catch (error) {
      if (signal.aborted) return;
      const reason =
        error instanceof WeightsError
          ? error
          : new WeightsError('unreachable', 'The source did not answer in time', error);
      for (const id of ids) fail(id, reason);
    }
  }

  function askOnce(ids: readonly string[], source: RemoteSource): Promise<void> {
    const asked = running.get(source.probeKey);
    if (asked !== undefined) return asked;
    const asking = ask(ids, source).finally(() => running.delete(source.probeKey));
    running.set(source.probeKey, asking);
    return asking;
  }

  return {
    get: (id) => failures.get(id) ?? null,
    fail,
    clear: (id) => failures.delete(id),

    async probe(sources) {
      const groups = Map.groupBy(sources, ([, source]) => source.probeKey);
      const waiting = [...groups.values()];
      const worker = async () => {
        for (let group = waiting.shift(); group !== undefined; group = waiting.shift()) {
          const [first] = group;
          if (first !== undefined)
            await askOnce(
              group.map(([id]) => id),
              first[1],
            );
        }
      };
      await Promise.all(Array.from({ length: PROBES_AT_A_TIME }, worker));
    },
  };
}
