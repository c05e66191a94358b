import type { Clock } from '@baobab/core/ports/clock.ts';
import { patientTimeout } from '@baobab/core/runtime/abort.ts';
import type { RemoteSource } from './sources/source.ts';
import { WeightsError } from './weights-error.ts';

export interface Unreachable {
  reason: WeightsError;
  /** Milliseconds since 1970. */
  retryAtMs: number;
}

export interface Reachability {
  /** Result of the last attempt. Null: reachable or not known yet. */
  get(id: string): Unreachable | null;
  fail(id: string, reason: WeightsError): void;
  clear(id: string): void;
  /** Asks each distinct list of sources once, a few at a time; one that answers is enough. Never rejects. */
  probe(sources: ReadonlyMap<string, readonly RemoteSource[]>): Promise<void>;
}

const PROBE_TIMEOUT_MS = 3_000;
const PROBES_AT_A_TIME = 4;

const keyOf = (sources: readonly RemoteSource[]): string => sources.map(({ probeKey }) => probeKey).join('\n');

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

  async function ask(ids: readonly string[], sources: readonly RemoteSource[]): Promise<void> {
    const deadline = AbortSignal.any([signal, patientTimeout(PROBE_TIMEOUT_MS)]);
    try {
      await Promise.any(sources.map((source) => source.probe(deadline)));
      for (const id of ids) failures.delete(id);
    } catch (failed) {
      if (signal.aborted) return;
      // The first source is the one an operator expects.
      const error: unknown = failed instanceof AggregateError ? failed.errors[0] : failed;
      const reason =
        error instanceof WeightsError
          ? error
          : new WeightsError('unreachable', 'The source did not answer in time', error);
      for (const id of ids) fail(id, reason);
    }
  }

  function askOnce(ids: readonly string[], sources: readonly RemoteSource[]): Promise<void> {
    const key = keyOf(sources);
    const asked = running.get(key);
    if (asked !== undefined) return asked;
    const asking = ask(ids, sources).finally(() => running.delete(key));
    running.set(key, asking);
    return asking;
  }

  return {
    get: (id) => failures.get(id) ?? null,
    fail,
    clear: (id) => failures.delete(id),

    async probe(sources) {
      const groups = Map.groupBy(sources, ([, each]) => keyOf(each));
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
